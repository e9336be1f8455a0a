"""What each GPU does over time, in equal bins: exact, and of one size whatever the trace's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS, analysed_windows, gpu_states

if TYPE_CHECKING:
    from nsys_deepprof.analyses.gpu_state import GpuStates
    from nsys_deepprof.intervals import Intervals, Ints
    from nsys_deepprof.trace import Trace

DEFAULT_MAX_BINS = 65_536
"""Bins over all GPUs together: enough to zoom in a hundredfold, and half a megabyte in a page."""

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    **{column: pl.Int64() for column in STATE_COLUMNS},
}


def timeline(trace: Trace, *, max_bins: int = DEFAULT_MAX_BINS) -> pl.DataFrame:
    """The time in each state per GPU and bin, sorted by (gpu, start_ns).

    Every GPU has the same bins, equally wide but for the last one, from the first to the last
    analysed nanosecond of any GPU; `max_bins` bounds the rows. The five states of a bin add up to
    the part of it that is analysed on that GPU: less than its width outside the GPU's window. Over
    all bins they add up to what `info` says.

    Columns: gpu, start_ns, end_ns, compute_ns, comm_ns, copy_ns, memset_ns, idle_ns, all i64.
    """
    windows = {gpu: w for gpu, w in analysed_windows(trace).items() if w[1][-1] > w[0][0]}
    if not windows:
        return pl.DataFrame(schema=SCHEMA)
    first = min(int(w[0][0]) for w in windows.values())
    last = max(int(w[1][-1]) for w in windows.values())
    edges = bin_edges(first, last, max(1, max_bins // len(windows)))
    states = gpu_states(trace)
    return pl.concat(
        _gpu_bins(states[gpu], window, edges) for gpu, window in sorted(windows.items())
    )


def bin_edges(first_ns: int, last_ns: int, max_bins: int) -> Ints:
    """Edges of at most `max_bins` equally wide bins that cover [first_ns, last_ns); the last may
    be narrower."""
    width = -(-(last_ns - first_ns) // max_bins)
    edges: Ints = np.append(np.arange(first_ns, last_ns, width, dtype=np.int64), last_ns)
    return edges


def _gpu_bins(states: GpuStates, window: Intervals, edges: Ints) -> pl.DataFrame:
    # Cut at the bins' and the windows' edges alike, so that each piece is inside or outside.
    cuts = np.unique(np.concatenate((edges, *window)))
    starts, ends = cuts[:-1], cuts[1:]
    inside = np.searchsorted(window[0], starts, "right") > np.searchsorted(
        window[1], starts, "right"
    )
    pieces = states.split(starts, ends)
    first_piece = np.searchsorted(starts, edges[:-1])
    totals = {
        column: np.add.reduceat(np.where(inside, part, 0), first_piece)
        for column, part in pieces.items()
    }
    return pl.DataFrame(
        {
            "gpu": np.full(len(edges) - 1, states.gpu, np.int64),
            "start_ns": edges[:-1],
            "end_ns": edges[1:],
            **totals,
        },
        schema=SCHEMA,
    )
