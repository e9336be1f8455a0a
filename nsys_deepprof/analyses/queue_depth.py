"""How much launched work waits on each stream: whether the host is ahead of the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof import host
from nsys_deepprof.device import device_ops
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

_LANE = ["gpu", "pid", "global_pid", "context_id", "stream_id"]


def queue_depth(trace: Trace) -> pl.DataFrame:
    """Launches that have returned and whose work has not begun, wherever that number changes.

    Per stream, of kernels and whole graphs whose launch call is known; a graph's kernels count
    once, from the call's end to the first of them. Work that begins before its call has returned
    never waited. A depth near 1,024 blocks the launching thread.

    Columns: gpu, pid, global_pid i64, context_id, stream_id i32, time_ns, depth i64; sorted by
    stream and time. A stream is absent where none of its launches is known or none ever waited.
    """
    rows = pl.concat([device_ops(trace), host.issuing_calls(trace)], how="horizontal")
    launched = pl.col("op").cast(pl.String).is_in(["kernel", "graph"])
    first_of_call = (
        rows.filter(launched & pl.col("call_end_ns").is_not_null())
        .sort("start_ns", maintain_order=True)
        .unique(["global_pid", "correlation_id"], keep="first", maintain_order=True)
    )
    launches = in_windows(first_of_call, trace.windows).filter(
        pl.col("start_ns") > pl.col("call_end_ns")
    )
    changes = pl.concat(
        [
            launches.select(*_LANE, pl.col("call_end_ns").alias("time_ns"), change=1),
            launches.select(*_LANE, pl.col("start_ns").alias("time_ns"), change=-1),
        ]
    )
    return (
        changes.group_by(*_LANE, "time_ns")
        .agg(pl.col("change").sum().cast(pl.Int64))
        .filter(pl.col("change") != 0)
        .sort(*_LANE, "time_ns")
        .select(*_LANE, "time_ns", pl.col("change").cum_sum().over(_LANE).alias("depth"))
    )
