"""How work gets from the host to the GPU: the launch call, the wait in the queue, the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof import host, intervals
from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import analysed_windows
from nsys_deepprof.analyses.queue_depth import STREAM_KEYS, queue_depth
from nsys_deepprof.device import by_gpu, by_lane, device_ops
from nsys_deepprof.ids import lane_label
from nsys_deepprof.intervals import total
from nsys_deepprof.result import Result
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.intervals import Intervals, Ints
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
    lane = STREAM_KEYS
    rows = in_windows(_launched_kernels(trace), trace.windows)
    run_ns = pl.col("end_ns") - pl.col("start_ns")
    call_ns = pl.col("call_end_ns") - pl.col("call_start_ns")
    known = pl.col("call_start_ns").is_not_null()
    before_call = pl.col("start_ns") < pl.col("call_start_ns")
    queue_ns = pl.when(~before_call).then(
        (pl.col("start_ns") - pl.col("call_end_ns")).clip(lower_bound=0)
    )
    first_of_call = pl.col("first_of_call")

    def if_known(value: pl.Expr) -> pl.Expr:
        return pl.when(known.any()).then(value)

    measures = [
        pl.len().cast(pl.Int64).alias("kernels"),
        known.sum().cast(pl.Int64).alias("launched"),
        if_known(first_of_call.sum()).alias("calls"),
        if_known(call_ns.filter(first_of_call).sum()).alias("api_ns"),
        call_ns.median().alias("api_median_ns"),
        queue_ns.median().alias("queue_median_ns"),
        queue_ns.quantile(0.95, "nearest").alias("queue_p95_ns"),
        queue_ns.max().alias("queue_max_ns"),
        run_ns.sum().alias("run_ns"),
        run_ns.median().alias("run_median_ns"),
        if_known((run_ns < call_ns).sum()).alias("short_kernels"),
        if_known((queue_ns == 0).sum()).alias("unqueued"),
        if_known(before_call.sum()).alias("before_call"),
    ]
    # A lane at a time: grouping would copy what a lane has already in a row.
    lanes = by_lane(rows, lane) or [rows]
    frame = (
        pl.concat(
            part.with_columns(host.first_of_call(part["call"])).select(
                pl.col(lane).first(), *measures
            )
            for part in lanes
        )
        .filter(pl.col("kernels") > 0)
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


def _launched_kernels(trace: Trace) -> pl.DataFrame:
    """`host.with_calls` of kernels plus `call`, the number of the call: several have one."""
    call = host.call_rows(trace).filter(device_ops(trace)["op"] == "kernel")
    return host.with_calls(trace, "kernels").with_columns(call.alias("call"))


def _depths(trace: Trace) -> pl.DataFrame:
    lasts_ns = pl.col("time_ns").diff().shift(-1)
    mean = (pl.col("depth") * lasts_ns).sum() / lasts_ns.sum()
    changes = queue_depth(trace)
    return pl.concat(
        part.select(
            pl.col(STREAM_KEYS).first(),
            mean.fill_nan(None).alias("depth_mean"),
            pl.col("depth").max().alias("depth_max"),
        )
        for part in by_lane(changes, STREAM_KEYS) or [changes]
    )


def _concurrency(trace: Trace) -> pl.DataFrame:
    """Time by number of streams that run kernels."""
    kernels = (
        device_ops(trace)
        .select(*STREAM_KEYS, "start_ns", "end_ns", "op")
        .filter(pl.col("op").is_in(["kernel", "graph"]))
    )
    kernels_of = dict(by_gpu(kernels))
    frames = [pl.DataFrame(schema={"gpu": pl.Int64, "streams": pl.Int64, "ns": pl.Int64})]
    for gpu, window in analysed_windows(trace).items():
        lanes = [
            intervals.union(part["start_ns"].to_numpy(), part["end_ns"].to_numpy())
            for part in by_lane(kernels_of.get(gpu, kernels.clear()), STREAM_KEYS)
        ]
        streams, length = _overlaps(lanes, window)
        found = pl.DataFrame({"streams": streams, "ns": length}).filter(pl.col("ns") > 0)
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


def _overlaps(lanes: list[Intervals], window: Intervals) -> tuple[Ints, Ints]:
    """Pieces of the window, by how many of the disjoint sets cover each: that number, length."""
    if len(lanes) == 1:
        busy_ns = int(intervals.covered_between(lanes[0], *window).sum())
        return np.array([0, 1]), np.array([total(window) - busy_ns, busy_ns])
    starts = np.concatenate([window[0][:1], *(lane[0] for lane in lanes), window[1][-1:]])
    ends = np.concatenate([lane[1] for lane in lanes] or [intervals.EMPTY[1]])
    edges = np.concatenate((starts, ends))
    step = np.concatenate((np.ones(len(starts), np.int64), -np.ones(len(ends), np.int64)))
    # The window's own bounds are edges at which nothing starts.
    step[0] = step[len(starts) - 1] = 0
    order = np.argsort(edges, kind="stable")
    running = np.cumsum(step[order])[:-1]
    edges = edges[order]
    return running, intervals.covered_between(window, edges[:-1], edges[1:])
