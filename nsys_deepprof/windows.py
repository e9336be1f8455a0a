"""Windows of analysis: by time, and by NVTX range projected onto the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import intervals
from nsys_deepprof.device import device_ops
from nsys_deepprof.errors import UsageError
from nsys_deepprof.ids import global_pid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsys_deepprof.trace import Trace

SCHEMA = {"gpu": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}


def narrow(
    trace: Trace,
    *,
    from_ms: float | None = None,
    to_ms: float | None = None,
    nvtx: str | None = None,
    gpus: Sequence[int] | None = None,
) -> Trace:
    """The same trace, analysed only inside a window, and only on some GPUs.

    `from_ms`, `to_ms` count from the trace's first event. `nvtx` keeps the time of the ranges of
    exactly that name, projected onto each GPU: from the first start to the last end of the work
    launched by the range's thread while the range was open (work runs later than its launch).
    Where launches are unknown the range's own host time is taken.

    Times that add up (states, gaps) are clipped to the window; an operation belongs to the window
    in which it starts. Raises UsageError when nothing is left.
    """
    if from_ms is None and to_ms is None and nvtx is None and gpus is None:
        return trace
    first_ns, last_ns = trace.span_ns()
    start_ns = first_ns if from_ms is None else first_ns + round(from_ms * 1e6)
    end_ns = last_ns if to_ms is None else first_ns + round(to_ms * 1e6)
    if to_ms is None:
        # The window is half-open: an operation of no length at the very end is inside.
        end_ns += 1
    # Anything beyond the trace is the same as its ends; the numbers have to stay 64-bit.
    start_ns, end_ns = max(start_ns, first_ns), min(end_ns, last_ns + 1)
    if end_ns <= start_ns:
        length_ms = (last_ns - first_ns) / 1e6
        raise UsageError(
            "--from/--to", f"selects nothing: the trace runs from 0 to {length_ms:.3f} ms"
        )
    windows = time_windows(trace, start_ns, end_ns)
    if gpus is not None:
        present = windows["gpu"].to_list()
        absent = [gpu for gpu in gpus if gpu not in present]
        if absent:
            here = ", ".join(map(str, present)) or "none"
            raise UsageError(f"--gpu {absent[0]}", f"no such GPU in this trace (there: {here})")
        windows = windows.filter(pl.col("gpu").is_in(gpus))
    if nvtx is not None:
        windows = nvtx_windows(trace, nvtx, windows)
    return trace.within(windows)


def time_windows(trace: Trace, start_ns: int, end_ns: int) -> pl.DataFrame:
    """The window [start_ns, end_ns) on every GPU of the trace."""
    gpus = trace.table("gpus")["gpu"].unique().sort()
    return pl.DataFrame(
        {"gpu": gpus, "start_ns": [start_ns] * len(gpus), "end_ns": [end_ns] * len(gpus)},
        schema=SCHEMA,
    )


def nvtx_windows(trace: Trace, name: str, within: pl.DataFrame) -> pl.DataFrame:
    """Windows of the ranges called `name`, projected onto each GPU, inside `within`.

    Raises UsageError when no range has that name (and names some that exist).
    """
    ranges = trace.table("nvtx_ranges").filter(pl.col("kind") != "mark")
    chosen = ranges.filter(pl.col("name").cast(pl.String) == name)
    if chosen.height == 0:
        common = ranges["name"].value_counts(sort=True)["name"].head(5).cast(pl.String).to_list()
        hint = "ranges of this trace: " + ", ".join(common) if common else "it has no NVTX ranges"
        raise UsageError(f"--nvtx {name}", "no range of that name", hint)
    projected = _projected(trace, chosen)
    parts = []
    for (gpu,), bounds in within.group_by("gpu", maintain_order=True):
        mine = projected.filter(pl.col("gpu") == gpu)
        merged = intervals.union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        kept = intervals.intersect(
            merged, intervals.union(bounds["start_ns"].to_numpy(), bounds["end_ns"].to_numpy())
        )
        parts.append(
            pl.DataFrame(
                {"gpu": [gpu] * len(kept[0]), "start_ns": kept[0], "end_ns": kept[1]},
                schema=SCHEMA,
            )
        )
    windows = pl.concat(parts) if parts else pl.DataFrame(schema=SCHEMA)
    if windows.height == 0:
        raise UsageError(
            f"--nvtx {name}",
            "no GPU work belongs to the ranges of that name",
            "only what their own threads launch while they are open does",
        )
    return windows


def in_windows(frame: pl.DataFrame, windows: pl.DataFrame | None) -> pl.DataFrame:
    """The rows of `frame` (columns gpu, start_ns) that start inside the windows."""
    if windows is None:
        return frame
    keep = np.zeros(frame.height, np.bool_)
    row_gpu = frame["gpu"].to_numpy()
    starts = frame["start_ns"].to_numpy()
    for (gpu,), mine in windows.group_by("gpu"):
        rows = np.flatnonzero(row_gpu == gpu)
        disjoint = (mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        keep[rows] = intervals.covering(disjoint, starts[rows])
    return frame.filter(pl.Series(keep))


def _projected(trace: Trace, ranges: pl.DataFrame) -> pl.DataFrame:
    """Per range and GPU, the time from its work's first start to its last end."""
    calls = trace.table("api_calls")
    if calls.height == 0:
        gpus = trace.table("gpus").select("gpu").unique()
        return ranges.select("start_ns", "end_ns").join(gpus, how="cross")
    opened = (
        ranges.sort("start_ns")
        .with_row_index("range")
        # Ranges of one name and thread that overlap are one: below, a call belongs to one only.
        .with_columns(pl.col("end_ns").cum_max().shift(1).over("global_tid").alias("reach_ns"))
        .with_columns(
            (pl.col("start_ns") >= pl.col("reach_ns").fill_null(pl.col("start_ns")))
            .cum_sum()
            .over("global_tid")
            .alias("merged")
        )
        .group_by("global_tid", "merged", maintain_order=True)
        .agg(pl.col("range", "start_ns").first(), pl.col("end_ns").max().alias("range_end_ns"))
        .select("range", "global_tid", "start_ns", "range_end_ns")
    )
    inside = (
        calls.select("start_ns", "global_tid", "correlation_id")
        .filter(pl.col("correlation_id").is_not_null())
        .sort("start_ns")
        .join_asof(opened, on="start_ns", by="global_tid", check_sortedness=False)
        .filter(pl.col("start_ns") < pl.col("range_end_ns"))
        .select("range", global_pid_of(pl.col("global_tid")).alias("global_pid"), "correlation_id")
    )
    return (
        device_ops(trace)
        .select("gpu", "global_pid", "correlation_id", "start_ns", "end_ns")
        .join(inside, on=["global_pid", "correlation_id"])
        .group_by("range", "gpu")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .select("gpu", "start_ns", "end_ns")
    )
