"""What was captured, what each GPU did, and what cannot be trusted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS, analysed_windows, gpu_states
from nsys_deepprof.analyses.trust import capture_warnings
from nsys_deepprof.device import LANE_KEYS, by_gpu, by_lane, device_ops
from nsys_deepprof.host import call_rows
from nsys_deepprof.result import Result
from nsys_deepprof.trace import TABLES
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "device_id": pl.Int32(),
    "name": pl.String(),
    "window_start_ns": pl.Int64(),
    "window_end_ns": pl.Int64(),
    "window_ns": pl.Int64(),
    **{column: pl.Int64() for column in STATE_COLUMNS},
    "utilization": pl.Float64(),
    "kernels": pl.Int64(),
    "memcpys": pl.Int64(),
    "memsets": pl.Int64(),
    "graph_launches": pl.Int64(),
    "kernel_sum_ns": pl.Int64(),
    "processes": pl.Int64(),
}


@with_context
def info(trace: Trace) -> Result:
    """One row per GPU: its window, its time in each state, and what ran.

    The five states add up to `window_ns`. `utilization` is (compute + comm) / window, never over
    1; `kernel_sum_ns` adds the kernels' durations, so it exceeds the window where kernels
    overlap. `pid` and `device_id` are those of the first process where several share the GPU.

    Extra keys: `status` ('ok' or 'no_gpu_activity'), `gpus` (the rows), `capture`, `tables` (rows
    kept by table; null where the source has no such table), `dropped`, `skipped`,
    `unmatched_kernels` (kernels without a launch row; null where no call was traced),
    `invalid_timestamps`, `suspect_durations`, `api_calls`, `warnings`.
    """
    frame = _gpu_rows(trace)
    facts = {table: trace.facts(table) for table in TABLES}
    skips = {skip.table: skip for fact in facts.values() for skip in fact.skipped}
    dropped = {table: fact.dropped for table, fact in facts.items() if fact.dropped}
    bad_times = ("no_time", "not_collected", "negative_duration")
    status = "ok" if trace.table("gpus").height else "no_gpu_activity"
    extra: dict[str, Any] = {
        "status": status,
        "gpus": frame,
        "capture": _capture(trace),
        "tables": {
            table: None if facts[table].source_rows is None else trace.table(table).height
            for table in TABLES
        },
        "dropped": dropped,
        "skipped": [{"table": s.table, "reason": s.reason, "lost": s.lost} for s in skips.values()],
        "unmatched_kernels": _unmatched_kernels(trace),
        "invalid_timestamps": sum(d.get(r, 0) for d in dropped.values() for r in bad_times),
        "suspect_durations": _suspect_durations(trace),
        "api_calls": trace.table("api_calls").height if trace.has("api_calls") else None,
        "warnings": list(capture_warnings(trace)),
    }
    notes = () if status == "ok" else ("No GPU activity in this capture: nothing to split.",)
    return Result("info", frame, extra, notes)


def _gpu_rows(trace: Trace) -> pl.DataFrame:
    windows = analysed_windows(trace)
    ops = in_windows(device_ops(trace), trace.windows)
    is_op = {op: pl.col("op") == op for op in ("kernel", "memcpy", "memset", "graph")}
    duration = pl.col("end_ns") - pl.col("start_ns")
    counted = {
        "kernels": is_op["kernel"].sum(),
        "memcpys": is_op["memcpy"].sum(),
        "memsets": is_op["memset"].sum(),
        "graph_launches": is_op["graph"].sum(),
        "kernel_sum_ns": duration.filter(is_op["kernel"]).sum(),
    }
    counts = {gpu: part.select(**counted).row(0, named=True) for gpu, part in by_gpu(ops)}
    rows = []
    for gpu, states in gpu_states(trace).items():
        if gpu not in windows:
            continue
        starts, ends = windows[gpu]
        split = {name: int(part.sum()) for name, part in states.split(starts, ends).items()}
        window_ns = int((ends - starts).sum())
        busy_ns = split["compute_ns"] + split["comm_ns"]
        rows.append(
            {
                "gpu": gpu,
                "window_start_ns": int(starts[0]),
                "window_end_ns": int(ends[-1]),
                "window_ns": window_ns,
                **split,
                "utilization": busy_ns / window_ns if window_ns else None,
                **counts.get(gpu, dict.fromkeys(counted, 0)),
            }
        )
    schema = {k: t for k, t in SCHEMA.items() if k in rows[0]} if rows else {"gpu": pl.Int64()}
    frame = pl.DataFrame(rows, schema=schema)
    owners = (
        trace.table("gpus")
        .group_by("gpu", maintain_order=True)
        .agg(
            pl.col("pid", "device_id", "name").first(),
            pl.len().cast(pl.Int64).alias("processes"),
        )
    )
    joined = frame.join(owners, on="gpu", how="left")
    absent = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in SCHEMA.items()
        if name not in joined.columns
    ]
    return joined.with_columns(absent).select(
        pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()
    )


def _capture(trace: Trace) -> dict[str, Any]:
    capture = trace.capture
    start = capture.start_utc_ns
    return {
        "nsys_version": capture.nsys_version,
        "schema_version": capture.schema_version,
        "start_utc": None
        if start is None
        else datetime.fromtimestamp(start / 1e9, UTC).isoformat(timespec="milliseconds"),
        "duration_ns": capture.duration_ns,
        "first_event_ns": trace.span_ns()[0],
        "last_event_ns": trace.span_ns()[1],
    }


def _unmatched_kernels(trace: Trace) -> int | None:
    if not trace.has("api_calls"):
        return None
    kernels = call_rows(trace).filter(device_ops(trace)["op"] == "kernel")
    return kernels.null_count()


def _suspect_durations(trace: Trace) -> int:
    """Kernels that outlast the end of a later kernel of their stream: a stream is in order."""
    suspect = 0
    for lane in by_lane(trace.table("kernels").select(*LANE_KEYS, "end_ns")):
        ends = lane["end_ns"].to_numpy()
        later = np.minimum.accumulate(ends[::-1])[::-1]
        suspect += int((ends[:-1] > later[1:]).sum())
    return suspect
