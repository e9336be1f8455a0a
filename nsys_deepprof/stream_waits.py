"""Which stream made an operation wait: cudaStreamWaitEvent tied to the event's record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof import host
from nsys_deepprof.device import device_ops

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

_STREAM = ["global_pid", "context_id", "stream_id"]
_NO_EVENT = 4_294_967_295
"""What the exporter writes where a synchronisation is on no event."""

_WAIT_CALLS = ["cudaStreamWaitEvent", "cuStreamWaitEvent"]


def waits_of_ops(trace: Trace) -> pl.DataFrame:
    """Per row of `device_ops`, the other stream that it was made to wait for before it was issued.

    Columns: waits_for_stream i32, waits_for_op Categorical (the last operation issued to that
    stream before the event was recorded there). Null where nothing waits, where the wait is older
    than the operation before it on its stream, or where the capture has no event rows. Of several
    waits the last one counts.
    """
    return trace.once("waits_of_ops", lambda: _waits_of_ops(trace), whole_trace=True)


def _waits_of_ops(trace: Trace) -> pl.DataFrame:
    waits = _stream_waits(trace)
    columns = {"waits_for_stream": pl.Int32, "waits_for_op": pl.Categorical}
    rows = device_ops(trace).select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
    if waits.height == 0:
        nothing = (pl.lit(None, dtype).alias(name) for name, dtype in columns.items())
        return rows.with_columns(nothing).drop("row")
    ops = pl.concat([device_ops(trace), host.issuing_calls(trace)], how="horizontal")
    issued = (
        ops.with_row_index("row")
        .select("row", *_STREAM, "name", pl.col("call_start_ns").alias("time_ns"))
        .filter(pl.col("time_ns").is_not_null() & pl.col("stream_id").is_not_null())
        .sort("time_ns", maintain_order=True)
    )
    recorded = issued.select(*_STREAM, "time_ns", pl.col("name").alias("waits_for_op")).rename(
        {"stream_id": "waits_for_stream"}
    )
    named = waits.sort("record_ns").join_asof(
        recorded,
        left_on="record_ns",
        right_on="time_ns",
        by=["global_pid", "context_id", "waits_for_stream"],
        check_sortedness=False,
    )
    before = pl.col("time_ns").shift(1).over(_STREAM)
    found = (
        issued.with_columns(before.alias("before_ns"))
        .join_asof(
            named.drop("time_ns", strict=False).sort("wait_ns"),
            left_on="time_ns",
            right_on="wait_ns",
            by=_STREAM,
            check_sortedness=False,
        )
        .filter(pl.col("wait_ns") >= pl.col("before_ns").fill_null(-(2**63)))
        .select("row", *columns)
    )
    return rows.join(found, on="row", how="left", maintain_order="left").drop("row")


def _stream_waits(trace: Trace) -> pl.DataFrame:
    """Each wait of one stream for another: global_pid, context_id, stream_id, wait_ns (the call),
    waits_for_stream, record_ns (the call that recorded the event).

    The record is the one with the wait's event_sync_id; without such ids the last record of the
    same event before the wait, because the driver uses event ids again.
    """
    key = ["global_pid", "correlation_id"]
    asked = pl.concat([trace.table(table).select(key) for table in ("syncs", "cuda_events")])
    calls = (
        host.api_calls(trace)
        .select(*key, "start_ns", "api")
        .join(asked.unique(), on=key, how="semi", maintain_order="left")
        .unique(key, keep="first")
    )
    waits = (
        trace.table("syncs")
        .join(calls, on=key)
        .filter(pl.col("api").cast(pl.String).is_in(_WAIT_CALLS))
        .select(
            "global_pid",
            "context_id",
            pl.col("stream_id").cast(pl.Int32, strict=False),
            pl.col("start_ns_right").alias("wait_ns"),
            "event_id",
            "event_sync_id",
        )
        .sort("wait_ns")
    )
    records = (
        trace.table("cuda_events")
        .join(calls, on=key)
        .select(
            "global_pid",
            pl.col("stream_id").alias("waits_for_stream"),
            pl.col("start_ns").alias("record_ns"),
            "event_id",
            "event_sync_id",
        )
        .sort("record_ns")
    )
    known = pl.col("event_sync_id").is_not_null() & (pl.col("event_sync_id") != _NO_EVENT)
    by_sync = waits.filter(known).join(
        records.filter(known).unique(["global_pid", "event_sync_id"], keep="first"),
        on=["global_pid", "event_sync_id"],
    )
    by_event = waits.filter(~known).join_asof(
        records,
        left_on="wait_ns",
        right_on="record_ns",
        by=["global_pid", "event_id"],
        check_sortedness=False,
    )
    columns = [*_STREAM, "wait_ns", "waits_for_stream", "record_ns"]
    return (
        pl.concat([by_sync.select(columns), by_event.select(columns)])
        .filter(
            pl.col("record_ns").is_not_null() & (pl.col("waits_for_stream") != pl.col("stream_id"))
        )
        .sort("wait_ns", maintain_order=True)
    )
