"""NVTX ranges that return once per iteration, seen from the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from nsys_deepprof import host
from nsys_deepprof.device import device_ops

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsys_deepprof.analyses.lanes import Lane
    from nsys_deepprof.mining.iterations import Iterations
    from nsys_deepprof.trace import Trace

# A range that marks iterations is open for this share of their time, at least.
MIN_OPEN_SHARE = 0.5
# Digits tell one step's range from the next's: `step 12`, `ProfilerStep#1009`.
_NUMBER = r"\d+"


class Marks(NamedTuple):
    """The ranges of one name (its digits replaced by *) that mark iterations.

    `operation[k]` is the first operation of the lane that the `k`-th range launched.
    """

    name: str
    operation: NDArray[np.int64]


def iteration_marks(trace: Trace, lane: Lane, found: Iterations) -> Marks | None:
    """The ranges that are open for most of the time, about once per iteration; None without.

    Of several such names the one that is open for the most time. Only ranges count that launched
    an operation of the lane; their number may differ from that of the iterations by one.
    """
    ranges = trace.table("nvtx_ranges")
    if ranges.height == 0 or trace.table("api_calls").height == 0:
        return None
    span_ns = int(found.end_ns[-1] - found.start_ns[0])
    totals = trace.once("nvtx_range_totals", lambda: _range_totals(ranges), whole_trace=True)
    often = (
        totals.group_by("pattern", "global_tid")
        .agg(pl.col("ranges").cast(pl.Int64).sum(), pl.col("open").sum())
        .filter(
            pl.col("ranges").is_between(len(found) - 1, len(found) + 3)
            & (pl.col("open") >= MIN_OPEN_SHARE * span_ns)
        )
        .sort("open", "pattern", "global_tid", descending=[True, False, False])
    )
    for pattern, tid, _, _ in often.iter_rows():
        names = totals.filter(pl.col("pattern") == pattern)["name"]
        of_name = (pl.col("global_tid") == tid) & pl.col("name").is_in(names.implode())
        mine = ranges.filter(of_name & _CLOSED)
        operation = _first_operations(trace, lane, tid, mine.sort("start_ns"))
        if abs(len(operation) - len(found)) <= 1 and len(operation) > 1:
            return Marks(pattern, operation)
    return None


_CLOSED = (pl.col("kind") != "mark") & ~pl.col("open")


def _range_totals(ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges of each name and thread: how many, how long open, and the name's `pattern`.

    Names are few and ranges many: digits are replaced in each name once.
    """
    return (
        ranges.lazy()
        .filter(_CLOSED)
        .group_by("name", "global_tid")
        .agg(pl.len().alias("ranges"), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("open"))
        .with_columns(pl.col("name").cast(pl.String).str.replace_all(_NUMBER, "*").alias("pattern"))
        .collect()
    )


def _first_operations(
    trace: Trace, lane: Lane, tid: int, ranges: pl.DataFrame
) -> NDArray[np.int64]:
    """For each range of a thread, the lane's first operation launched inside it, if any."""
    ops = device_ops(trace).select("gpu", "global_pid", "context_id", "stream_id", "start_ns", "op")
    calls = host.issuing_calls(trace)
    mined_ops = (
        ["kernel", "graph"] if lane.is_kernel.all() else ["kernel", "graph", "memcpy", "memset"]
    )
    mine = (
        ops.with_columns(calls["call_start_ns"], calls["call_tid"])
        .filter(
            (pl.col("gpu") == lane.gpu)
            & pl.col("global_pid").eq_missing(lane.global_pid)
            & pl.col("context_id").eq_missing(lane.context_id)
            & (pl.col("stream_id") == lane.stream_id)
            & (pl.col("call_tid") == tid)
            & pl.col("op").is_in(mined_ops)
        )
        .sort("call_start_ns", maintain_order=True)
    )
    launched = mine["call_start_ns"].to_numpy()
    at = np.searchsorted(launched, ranges["start_ns"].to_numpy())
    inside = at < len(launched)
    inside[inside] = launched[at[inside]] < ranges["end_ns"].to_numpy()[inside]
    starts = mine["start_ns"].to_numpy()[at[inside]]
    return np.searchsorted(lane.sequence.start_ns, starts).astype(np.int64)
