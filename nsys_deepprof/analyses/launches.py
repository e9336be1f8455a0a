"""How work gets from the host to the GPU: the launch call, the wait in the queue, the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof import host, intervals
from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import analysed_windows
from nsys_deepprof.analyses.queue_depth import queue_depth
from nsys_deepprof.device import device_ops
from nsys_deepprof.ids import lane_label
from nsys_deepprof.intervals import total
from nsys_deepprof.result import Result
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

QUEUE_LIMIT = 1_024
"""Launches that a stream holds before the driver blocks the launching thread."""

SCHEMA: dict[str, pl.DataType] = {
    "lane": pl.String(),
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "context_id": pl.Int32(),
    "stream_id": pl.Int32(),
    "kernels": pl.Int64(),
    "launched": pl.Int64(),
    "calls": pl.Int64(),
    "api_ns": pl.Int64(),
    "api_median_ns": pl.Float64(),
    "queue_median_ns": pl.Float64(),
    "queue_p95_ns": pl.Float64(),
    "queue_max_ns": pl.Int64(),
    "run_ns": pl.Int64(),
    "run_median_ns": pl.Float64(),
    "short_kernels": pl.Int64(),
    "short_share": pl.Float64(),
    "unqueued": pl.Int64(),
    "unqueued_share": pl.Float64(),
    "before_call": pl.Int64(),
    "depth_mean": pl.Float64(),
    "depth_max": pl.Int64(),
}


@with_context
def launches(trace: Trace) -> Result:
    """One row per stream with kernels, the busiest first.

    Columns: lane, gpu, pid, context_id, stream_id, kernels, launched (kernels whose launch call is
    known; the columns that follow are about these, and null without any), calls (distinct launch
    calls: a graph's counts once), api_ns (their durations), api_median_ns, queue_median_ns,
    queue_p95_ns, queue_max_ns (kernel start - call end where positive, else 0), run_ns,
    run_median_ns (of all kernels), short_kernels (run for less time than their launch call took)
    and short_share, unqueued (no queue time: the host only just keeps up) and unqueued_share,
    before_call (kernels that start before their call does: clocks disagree; left out of queue
    times), depth_mean (over the time from the first launch to the last start) and depth_max of the
    queue; a depth near 1,024 blocks the launching thread.

    Extra keys: `queue_limit`; `concurrency`: a frame of gpu, streams, ns, share: for how long so
    many streams of the GPU run kernels at the same time, within the analysed window.
    """
    rows = in_windows(host.with_calls(trace, "kernels"), trace.windows)
    lane = ["gpu", "pid", "global_pid", "context_id", "stream_id"]
    run_ns = pl.col("end_ns") - pl.col("start_ns")
    call_ns = pl.col("call_end_ns") - pl.col("call_start_ns")
    known = pl.col("call_start_ns").is_not_null()
    before_call = pl.col("start_ns") < pl.col("call_start_ns")
    queue_ns = pl.when(~before_call).then(
        (pl.col("start_ns") - pl.col("call_end_ns")).clip(lower_bound=0)
    )
    calls = pl.struct("call_tid", "call_start_ns", "call_end_ns").filter(known).unique()

    def if_known(value: pl.Expr) -> pl.Expr:
        return pl.when(known.any()).then(value)

    frame = (
        rows.group_by(lane, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("kernels"),
            known.sum().cast(pl.Int64).alias("launched"),
            if_known(calls.len()).alias("calls"),
            if_known(
                (calls.struct.field("call_end_ns") - calls.struct.field("call_start_ns")).sum()
            ).alias("api_ns"),
            call_ns.median().alias("api_median_ns"),
            queue_ns.median().alias("queue_median_ns"),
            queue_ns.quantile(0.95, "nearest").alias("queue_p95_ns"),
            queue_ns.max().alias("queue_max_ns"),
            run_ns.sum().alias("run_ns"),
            run_ns.median().alias("run_median_ns"),
            if_known((run_ns < call_ns).sum()).alias("short_kernels"),
            if_known((queue_ns == 0).sum()).alias("unqueued"),
            if_known(before_call.sum()).alias("before_call"),
        )
        .with_columns(
            (pl.col("short_kernels") / pl.col("launched")).alias("short_share"),
            (pl.col("unqueued") / pl.col("launched")).alias("unqueued_share"),
            lane_label().alias("lane"),
        )
        .join(_depths(trace), on=lane, how="left", nulls_equal=True, maintain_order="left")
        .sort("run_ns", descending=True, maintain_order=True)
        .with_columns(
            # A stream whose launches are known and never wait has an empty queue.
            pl.when(pl.col("launched") > 0).then(pl.col(c).fill_null(0)).alias(c)
            for c in ("depth_mean", "depth_max")
        )
    )
    extra: dict[str, Any] = {"queue_limit": QUEUE_LIMIT, "concurrency": _concurrency(trace)}
    notes = []
    if not trace.has("api_calls"):
        notes.append("No CUDA API calls were traced: launches and queues are unknown.")
    elif rows.height == 0:
        notes.append("No kernels in the analysed time.")
    return Result(
        "launches", frame.select(pl.col(c).cast(t) for c, t in SCHEMA.items()), extra, tuple(notes)
    )


def _depths(trace: Trace) -> pl.DataFrame:
    lane = ["gpu", "pid", "global_pid", "context_id", "stream_id"]
    lasts = pl.col("time_ns").shift(-1).over(lane) - pl.col("time_ns")
    return (
        queue_depth(trace)
        .with_columns(lasts.alias("lasts_ns"))
        .group_by(lane, maintain_order=True)
        .agg(
            ((pl.col("depth") * pl.col("lasts_ns")).sum() / pl.col("lasts_ns").sum()).alias(
                "depth_mean"
            ),
            pl.col("depth").max().alias("depth_max"),
        )
        .with_columns(pl.col("depth_mean").fill_nan(None))
    )


def _concurrency(trace: Trace) -> pl.DataFrame:
    """Time by number of streams that run kernels."""
    ops = device_ops(trace)
    kernels = ops.filter(pl.col("op").is_in(["kernel", "graph"]))
    frames = [pl.DataFrame(schema={"gpu": pl.Int64, "streams": pl.Int64, "ns": pl.Int64})]
    for gpu, window in analysed_windows(trace).items():
        mine = kernels.filter(pl.col("gpu") == gpu)
        lanes = [
            intervals.union(part["start_ns"].to_numpy(), part["end_ns"].to_numpy())
            for _, part in mine.group_by("global_pid", "context_id", "stream_id")
        ]
        starts = np.concatenate([window[0][:1], *(lane[0] for lane in lanes), window[1][-1:]])
        ends = np.concatenate([lane[1] for lane in lanes] or [intervals.EMPTY[1]])
        edges = np.concatenate((starts, ends))
        step = np.concatenate((np.ones(len(starts), np.int64), -np.ones(len(ends), np.int64)))
        # The window's own bounds are edges at which nothing starts.
        step[0] = step[len(starts) - 1] = 0
        order = np.argsort(edges, kind="stable")
        running = np.cumsum(step[order])[:-1]
        length = intervals.covered_between(window, edges[order][:-1], edges[order][1:])
        found = pl.DataFrame({"streams": running, "ns": length}).filter(pl.col("ns") > 0)
        frames.append(
            found.group_by("streams")
            .agg(pl.col("ns").sum())
            .sort("streams")
            .select(pl.lit(gpu, pl.Int64).alias("gpu"), "streams", "ns")
        )
    every = pl.concat(frames)
    window_ns = {gpu: total(window) for gpu, window in analysed_windows(trace).items()}
    spans = pl.DataFrame(
        {"gpu": list(window_ns), "window_ns": list(window_ns.values())},
        schema={"gpu": pl.Int64, "window_ns": pl.Int64},
    )
    return every.join(spans, on="gpu", how="left", maintain_order="left").select(
        "gpu", "streams", "ns", (pl.col("ns") / pl.col("window_ns")).alias("share")
    )
