"""How much launched work waits on each stream: whether the host is ahead of the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import host
from nsys_deepprof.device import device_ops
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.intervals import Ints
    from nsys_deepprof.trace import Trace

STREAM_KEYS = ["gpu", "pid", "global_pid", "context_id", "stream_id"]


def queue_depth(trace: Trace) -> pl.DataFrame:
    """Launches that have returned and whose work has not begun, wherever that number changes.

    Per stream, of kernels and whole graphs whose launch call is known; a graph's kernels count
    once, from the call's end to the first of them. Work that begins before its call has returned
    never waited. A depth near 1,024 blocks the launching thread.

    Columns: gpu, pid, global_pid i64, context_id, stream_id i32, time_ns, depth i64; sorted by
    stream and time. A stream is absent where none of its launches is known or none ever waited.
    """
    return trace.once("queue_depth", lambda: _queue_depth(trace))


def _queue_depth(trace: Trace) -> pl.DataFrame:
    rows = pl.concat([device_ops(trace), host.issuing_calls(trace)], how="horizontal").select(
        *STREAM_KEYS, "start_ns", "correlation_id", "op", "call_end_ns"
    )
    launched = pl.col("op").is_in(["kernel", "graph"])
    first_of_call = (
        rows.filter(launched & pl.col("call_end_ns").is_not_null())
        .sort("start_ns", maintain_order=True)
        .unique(["global_pid", "correlation_id"], keep="first", maintain_order=True)
    )
    launches = in_windows(first_of_call, trace.windows).filter(
        pl.col("start_ns") > pl.col("call_end_ns")
    )
    lanes = launches.select(STREAM_KEYS).unique().sort(STREAM_KEYS).with_row_index("lane")
    numbered = launches.join(
        lanes, on=STREAM_KEYS, how="left", nulls_equal=True, maintain_order="left"
    )
    lane = numbered["lane"].to_numpy()
    lane, time_ns, depth = _running(
        lane, launches["call_end_ns"].to_numpy(), launches["start_ns"].to_numpy()
    )
    return lanes[lane].select(STREAM_KEYS).with_columns(time_ns=time_ns, depth=depth)


def _running(lane: Ints, from_ns: Ints, to_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """How many of the intervals of each lane are open, where that changes: lane, time, number."""
    lanes = np.concatenate((lane, lane)).astype(np.int64)
    times = np.concatenate((from_ns, to_ns))
    step = np.repeat(np.array([1, -1], np.int64), len(lane))
    order = np.lexsort((times, lanes))
    lanes, times = lanes[order], times[order]
    # Every interval ends in its lane, so that each lane's sum begins at 0.
    depth = np.cumsum(step[order])
    last = np.append((lanes[1:] != lanes[:-1]) | (times[1:] != times[:-1]), True)[: len(lanes)]
    lanes, times, depth = lanes[last], times[last], depth[last]
    same = (lanes[1:] == lanes[:-1]) & (depth[1:] == depth[:-1])
    keep = np.append(True, ~same)[: len(lanes)]
    return lanes[keep], times[keep], depth[keep]
