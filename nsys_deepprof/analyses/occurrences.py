"""What every iteration of one lane spent at every place of its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS, gpu_states
from nsys_deepprof.device import device_ops

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsys_deepprof.analyses.lanes import Lane
    from nsys_deepprof.mining.iterations import Iterations
    from nsys_deepprof.trace import Trace

PLACE_SCHEMA = {
    "turn": pl.Int64,
    "position": pl.Int64,
    "start_ns": pl.Int64,
    "run_ns": pl.Int64,
    "slot_start_ns": pl.Int64,
    "slot_ns": pl.Int64,
    **dict.fromkeys(STATE_COLUMNS, pl.Int64),
}
SIDE_SCHEMA = {
    "turn": pl.Int64,
    "op": pl.String,
    "name": pl.String,
    "ordinal": pl.Int64,
    "position": pl.Int64,
    "run_ns": pl.Int64,
}


@dataclass(frozen=True)
class Occurrences:
    """The timed iterations of one lane, taken apart.

    `turns`: per iteration, `wall_ns` (to the start of the next), the state columns (they add up to
    it) and `kernel_ns` (durations of all kernels of the process that start in it, added up:
    overlapping ones count each).
    `places`: per operation that has a place in the body, its start, its duration `run_ns` and its
    slot, from its start (the iteration's, for the first) to the next placed one's; the slots of an
    iteration add up to its wall time, and the state columns to the slot.
    `side`: all other device work of the process in the iteration (copies, memsets, other streams,
    extra kernels), numbered by name within the iteration, with the place during or after which it
    began.
    """

    turns: pl.DataFrame
    places: pl.DataFrame
    side: pl.DataFrame

    @property
    def count(self) -> int:
        """How many iterations."""
        return self.turns.height


def timed_turns(found: Iterations) -> int:
    """How many iterations can be compared: not the last, whose end is not the start of another."""
    return max(len(found) - 1, 0)


def occurrences(trace: Trace, lane: Lane, found: Iterations) -> Occurrences:
    """Take the timed iterations of `found`, of `lane`, apart."""
    size = timed_turns(found)
    starts, ends = found.start_ns[:size], found.end_ns[:size]
    states = gpu_states(trace)[lane.gpu]
    places = _places(lane, found, size)
    slot_start, slot_end = places.pop("slot_start"), places.pop("slot_end")
    side, kernel_ns = _side(trace, lane, found, size)
    return Occurrences(
        turns=pl.DataFrame(
            {"wall_ns": ends - starts, **states.split(starts, ends), "kernel_ns": kernel_ns}
        ),
        places=pl.DataFrame(
            {
                **places,
                "slot_start_ns": slot_start,
                "slot_ns": slot_end - slot_start,
                **states.split(slot_start, slot_end),
            },
            schema=PLACE_SCHEMA,
        ),
        side=side,
    )


def periods_ns(lane: Lane, found: Iterations, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Per timed iteration, and per given place of the body, the time from there to the same place
    of the next iteration: the iteration time as if the cycle were cut there.

    Where one of the two lacks the place, the median of the iteration's other places stands in, and
    where it lacks all of them, its own time.
    """
    size = timed_turns(found)
    column = np.full(len(found.body), -1)
    column[positions] = np.arange(len(positions))
    at = np.flatnonzero(found.position >= 0)
    at = at[column[found.position[at]] >= 0]
    starts = np.full((len(found), len(positions)), np.nan)
    turn = np.searchsorted(found.first, at, side="right") - 1
    # Relative to the first iteration, floats hold every ns of any capture.
    starts[turn, column[found.position[at]]] = lane.sequence.start_ns[at] - found.start_ns[0]
    steps: NDArray[np.float64] = np.diff(starts, axis=0)[:size]
    missing = np.isnan(steps)
    if missing.any():
        usual = found.duration_ns[:size].astype(np.float64)
        some = ~missing.all(axis=1)
        usual[some] = np.nanmedian(steps[some], axis=1)
        steps = np.where(missing, usual[:, None], steps)
    return steps


def _places(lane: Lane, found: Iterations, size: int) -> dict[str, NDArray[np.int64]]:
    sequence = lane.sequence
    stop = int(found.stop[size - 1]) if size else 0
    at = np.flatnonzero(found.position[:stop] >= 0)
    turn = np.searchsorted(found.first, at, side="right") - 1
    start = sequence.start_ns[at]
    first = np.r_[True, turn[1:] != turn[:-1]] if len(at) else np.zeros(0, np.bool_)
    last = np.r_[first[1:], True] if len(at) else first
    # What an iteration does before its first placed operation belongs to that one's slot.
    slot_start = np.where(first, found.start_ns[turn], start)
    slot_end = np.where(last, found.end_ns[turn], np.r_[start[1:], 0][: len(at)])
    return {
        "turn": turn,
        "position": found.position[at].astype(np.int64),
        "start_ns": start,
        "run_ns": sequence.end_ns[at] - start,
        "slot_start": slot_start,
        "slot_end": slot_end,
    }


def _side(
    trace: Trace, lane: Lane, found: Iterations, size: int
) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """Work without a place in the body, and the summed kernel time of every iteration."""
    ops = device_ops(trace).filter(
        (pl.col("gpu") == lane.gpu) & pl.col("global_pid").eq_missing(pl.lit(lane.global_pid))
    )
    start = ops["start_ns"].to_numpy()
    turn = np.searchsorted(found.start_ns, start, side="right") - 1
    ops = ops.with_columns(pl.Series("turn", turn, pl.Int64)).filter(
        (pl.col("turn") >= 0) & (pl.col("turn") < size)
    )
    runs = ops["op"].is_in(["kernel", "graph"]).to_numpy()
    duration = (ops["end_ns"] - ops["start_ns"]).to_numpy()
    kernel_ns = np.bincount(
        ops["turn"].to_numpy()[runs], weights=duration[runs], minlength=size
    ).astype(np.int64)
    sequence = lane.sequence
    placed = np.flatnonzero(found.position >= 0)
    placed_start = sequence.start_ns[placed]
    # Both are sorted by start, and ties keep the order of the source: the k-th of equal starts in
    # one is the k-th in the other.
    in_lane = (
        pl.col("context_id").eq_missing(pl.lit(lane.context_id))
        & pl.col("stream_id").eq_missing(pl.lit(lane.stream_id))
        & pl.col("op").is_in(["kernel", "graph"])
    )
    of_lane = np.flatnonzero(ops.select(in_lane).to_series().to_numpy())
    has_place = np.zeros(ops.height, np.bool_)
    first_row = np.searchsorted(sequence.start_ns, ops["start_ns"].to_numpy()[of_lane])
    tied = _number_of_equal(ops["start_ns"].to_numpy()[of_lane])
    row = np.minimum(first_row + tied, len(sequence) - 1)
    known = sequence.start_ns[row] == ops["start_ns"].to_numpy()[of_lane]
    has_place[of_lane] = known & (found.position[row] >= 0)
    near = np.searchsorted(placed_start, ops["start_ns"].to_numpy(), side="right") - 1
    position = found.position[placed[np.maximum(near, 0)]]
    side = (
        ops.with_columns(
            pl.Series("position", position, pl.Int64),
            pl.Series("placed", has_place),
            (pl.col("end_ns") - pl.col("start_ns")).alias("run_ns"),
        )
        .filter(~pl.col("placed"))
        .with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).over("turn", "op", "name").alias("ordinal")
        )
        .select(pl.col(name).cast(dtype) for name, dtype in SIDE_SCHEMA.items())
    )
    return side, kernel_ns


def _number_of_equal(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per element of a sorted array, how many equal ones are before it."""
    first = np.r_[True, values[1:] != values[:-1]] if len(values) else np.zeros(0, np.bool_)
    index = np.arange(len(values))
    numbers: NDArray[np.int64] = index - np.maximum.accumulate(np.where(first, index, 0))
    return numbers
