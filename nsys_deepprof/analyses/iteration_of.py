"""Which iteration a time on a GPU belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof.analyses.mined import iteration_time_ns, main_lanes, mined

if TYPE_CHECKING:
    from nsys_deepprof.analyses.lanes import Lane
    from nsys_deepprof.analyses.mined import Mined
    from nsys_deepprof.mining.iterations import Iterations
    from nsys_deepprof.trace import Trace


def found_iterations(trace: Trace) -> pl.DataFrame:
    """The iterations of one lane per GPU: columns gpu, index, start_ns, end_ns, sorted.

    Where several processes share a GPU, the lane with the most iteration time stands for it.
    """
    return trace.once("found_iterations", lambda: _found_iterations(trace))


def _found_iterations(trace: Trace) -> pl.DataFrame:
    columns = ("gpu", "index", "start_ns", "end_ns")
    found = [
        pl.DataFrame(
            {
                "gpu": np.full(len(turns), gpu, np.int64),
                "index": np.arange(len(turns)),
                "start_ns": turns.start_ns,
                "end_ns": turns.end_ns,
            }
        )
        for gpu, (_, turns) in sorted(lane_of_gpu(trace).items())
    ]
    return pl.concat(found) if found else pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))


def position_of(trace: Trace, gpu: pl.Series, time_ns: pl.Series) -> pl.Series:
    """The position in the body of the iteration (see `anatomy` of `iterations`) of what next starts
    on the lane that stands for the GPU, from each time on; null where that is no part of it, and
    before the first iteration and after the last."""
    position = np.full(len(time_ns), -1, np.int64)
    gpus, times = gpu.to_numpy(), time_ns.to_numpy()
    for number, (lane, turns) in lane_of_gpu(trace).items():
        inside = (times >= turns.start_ns[0]) & (times <= lane.sequence.start_ns[-1])
        rows = np.flatnonzero((gpus == number) & inside)
        position[rows] = turns.position[np.searchsorted(lane.sequence.start_ns, times[rows])]
    return pl.Series("position", position).cast(pl.UInt32, strict=False).cast(pl.Int64)


def lane_of_gpu(trace: Trace) -> dict[int, tuple[Lane, Iterations]]:
    """Per GPU with iterations, the lane that stands for it: where several processes share it, the
    one with the most iteration time."""
    chosen: dict[int, Mined] = {}
    for one in main_lanes(mined(trace)):
        gpu = one.lane.gpu
        chosen[gpu] = max(chosen.get(gpu, one), one, key=iteration_time_ns)
    return {gpu: (one.lane, one.found) for gpu, one in chosen.items() if one.found is not None}


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
