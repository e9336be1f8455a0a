"""How much launched work waits on each stream: whether the host is ahead of the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import host
from nsys_deepprof.device import by_lane, device_ops
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
    ops = device_ops(trace).select(*STREAM_KEYS, "start_ns", host.call_rows(trace).alias("call"))
    launched = device_ops(trace)["op"].is_in(["kernel", "graph"])
    ops = ops.filter(launched & ops["call"].is_not_null())
    if not ops["start_ns"].is_sorted():
        ops = ops.sort("start_ns", maintain_order=True)
    first_of_call = in_windows(ops.filter(host.first_of_call(ops["call"])), trace.windows)
    call_end_ns = host.api_calls(trace)["end_ns"].gather(first_of_call["call"])
    launches = first_of_call.with_columns(call_end_ns.alias("call_end_ns")).filter(
        pl.col("start_ns") > pl.col("call_end_ns")
    )
    lanes = by_lane(launches, STREAM_KEYS)
    schema = {key: launches.schema[key] for key in STREAM_KEYS}
    firsts = pl.DataFrame([lane.row(0)[: len(schema)] for lane in lanes], schema, orient="row")
    found = [pl.DataFrame(schema=schema | {"time_ns": pl.Int64, "depth": pl.Int64})]
    for number in firsts.with_row_index("lane").sort(STREAM_KEYS)["lane"]:
        lane = lanes[number]
        time_ns, depth = _running(lane["call_end_ns"].to_numpy(), lane["start_ns"].to_numpy())
        keys = (pl.lit(lane[key][0], dtype).alias(key) for key, dtype in schema.items())
        changes = pl.DataFrame({"time_ns": time_ns, "depth": depth}).select(
            *keys, "time_ns", "depth"
        )
        found.append(changes)
    return pl.concat(found if len(found) != 2 else found[1:])


def _running(from_ns: Ints, to_ns: Ints) -> tuple[Ints, Ints]:
    """How many of the intervals are open, where that changes: time, number."""
    times = np.concatenate((np.sort(from_ns), np.sort(to_ns)))
    # Two sorted runs: a stable sort merges them.
    order = np.argsort(times, kind="stable")
    times = times[order]
    depth = np.cumsum(np.where(order < len(from_ns), 1, -1))
    last = np.append(times[1:] != times[:-1], True)
    times, depth = times[last], depth[last]
    keep = np.append(True, depth[1:] != depth[:-1])
    return times[keep], depth[keep]
