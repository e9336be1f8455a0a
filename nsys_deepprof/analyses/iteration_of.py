"""Which iteration a time on a GPU belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace


def found_iterations(trace: Trace) -> pl.DataFrame:
    """The iterations of one lane per GPU: columns gpu, index, start_ns, end_ns, sorted.

    Where several processes share a GPU, the lane with the most iteration time stands for it.
    """
    return trace.once("found_iterations", lambda: _found_iterations(trace))


def _found_iterations(trace: Trace) -> pl.DataFrame:
    columns = ("gpu", "index", "start_ns", "end_ns")
    from nsys_deepprof.analyses.iterations import iterations

    rows = iterations(trace).frame
    lane = ["gpu", "pid", "stream_id"]
    longest = (
        rows.group_by(lane, maintain_order=True)
        .agg(pl.col("duration_ns").sum())
        .sort("duration_ns", descending=True, maintain_order=True)
        .unique("gpu", keep="first", maintain_order=True)
    )
    return (
        rows.join(longest, on=lane, how="semi", nulls_equal=True)
        .select(pl.col(c).cast(pl.Int64) for c in columns)
        .sort("gpu", "start_ns")
    )


def iteration_of(trace: Trace, gpu: pl.Series, time_ns: pl.Series) -> pl.Series:
    """The index of the iteration on `gpu` that holds each time; null where none does."""
    at = np.full(len(time_ns), -1, np.int64)
    gpus, times = gpu.to_numpy(), time_ns.to_numpy()
    found = found_iterations(trace)
    for number in found["gpu"].unique():
        mine = found.filter(pl.col("gpu") == number)
        first = found["gpu"].search_sorted(number)
        here = gpus == number
        # Most traces have one GPU: nothing is copied to choose its rows.
        rows = slice(None) if here.all() else np.flatnonzero(here)
        started = np.searchsorted(mine["start_ns"].to_numpy(), times[rows], side="right") - 1
        inside = (started >= 0) & (mine["end_ns"].to_numpy()[started] > times[rows])
        at[rows] = np.where(inside, started + first, -1)
    row = pl.Series(at).cast(pl.UInt32, strict=False)
    return found["index"].gather(row).alias("iteration")
