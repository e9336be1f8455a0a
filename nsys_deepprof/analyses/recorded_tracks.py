"""Tracks of what the capture recorded: streams with their work, threads with their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof import intervals
from nsys_deepprof.analyses.iteration_of import iteration_of
from nsys_deepprof.copies import costed_copies
from nsys_deepprof.device import device_ops, with_gpu
from nsys_deepprof.ids import global_pid_of, tid_of
from nsys_deepprof.tracks import Slices
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

_LANE = ["gpu", "pid", "context_id", "stream_id", "start_ns", "end_ns"]


def stream_name() -> pl.Expr:
    """A stream's track, from columns pid, context_id, stream_id (`?` for an unknown pid or
    context); copies that are on none are those of unified memory."""
    pid, context = or_unknown("pid"), or_unknown("context_id")
    stream = pl.format("stream {} (pid {}, context {})", "stream_id", pid, context)
    return pl.coalesce(stream, pl.format("unified memory (pid {})", pid))


def or_unknown(number: str | pl.Expr) -> pl.Expr:
    """A number as text, `?` for null: an event without one still has a track."""
    column = pl.col(number) if isinstance(number, str) else number
    return column.cast(pl.String).fill_null("?")


def stream_tracks(trace: Trace, gpu_process: pl.DataFrame) -> Slices:
    """Every kernel, whole graph, copy and memset that starts in the analysed time, by stream.

    `gpu_process` has gpu, process. Categories: kernel, graph, memcpy, memset.
    """
    every = pl.concat(
        [_kernels(trace), _graphs(trace), _copies(trace), _memsets(trace)], how="diagonal"
    )
    mine = in_windows(every, trace.windows).sort(
        "gpu", "pid", "context_id", "stream_id", "start_ns", maintain_order=True
    )
    return Slices(
        mine.join(gpu_process, on="gpu", how="left", maintain_order="left")
        .with_columns(
            stream_name().alias("track"),
            iteration_of(trace, mine["gpu"], mine["start_ns"]).alias("iteration"),
        )
        .drop("gpu", "pid", "context_id", "stream_id")
    )


def thread_tracks(trace: Trace, host_process: pl.DataFrame) -> Slices:
    """NVTX ranges and CUDA calls of every thread that lie, at least in part, in the analysed time.

    `host_process` has global_pid, process. Categories: nvtx, api.
    """
    names = trace.table("threads").select("global_tid", pl.col("name").alias("thread"))
    ranges = trace.table("nvtx_ranges").select(
        "global_tid",
        "start_ns",
        "end_ns",
        "name",
        category=pl.lit("nvtx"),
        kind=pl.col("kind").cast(pl.String),
        # Only where it is so: an argument on every range tells nothing.
        open=pl.when("open").then(True),
    )
    calls = trace.table("api_calls").select(
        "global_tid",
        "start_ns",
        "end_ns",
        "name",
        "correlation_id",
        category=pl.lit("api"),
        return_value=pl.when(pl.col("return_value") != 0).then("return_value"),
    )
    what = pl.col("category").replace_strict({"nvtx": "NVTX", "api": "CUDA calls"})
    tid = or_unknown(tid_of(pl.col("global_tid")))
    return Slices(
        _in_analysed_time(pl.concat([ranges, calls], how="diagonal"), trace)
        .join(names, on="global_tid", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce(
                pl.format("{} of thread {} ({})", what, tid, "thread"),
                pl.format("{} of thread {}", what, tid),
            ).alias("track"),
            global_pid_of(pl.col("global_tid")).alias("global_pid"),
        )
        .join(host_process, on="global_pid", how="left", nulls_equal=True, maintain_order="left")
        .sort("process", "global_tid", maintain_order=True)
        .drop("global_tid", "global_pid", "thread")
    )


def _kernels(trace: Trace) -> pl.DataFrame:
    def shape(kind: str) -> pl.Expr:
        return pl.format("{}x{}x{}", *(f"{kind}_{axis}" for axis in "xyz")).alias(kind)

    return with_gpu(trace.table("kernels"), trace).select(
        *_LANE,
        "name",
        shape("grid"),
        shape("block"),
        "correlation_id",
        "registers_per_thread",
        "static_shared_bytes",
        "dynamic_shared_bytes",
        "graph_node_id",
        category=pl.lit("kernel"),
    )


def _graphs(trace: Trace) -> pl.DataFrame:
    ops = device_ops(trace)
    named = ops.filter(ops["op"] == "graph")
    return named.select(*_LANE, "name", "correlation_id", category=pl.lit("graph"))


def _copies(trace: Trace) -> pl.DataFrame:
    def text(column: str) -> pl.Expr:
        return pl.col(column).cast(pl.String)

    return costed_copies(trace).select(
        *_LANE,
        ("Memcpy " + text("kind")).cast(pl.Categorical).alias("name"),
        "bytes",
        text("src_kind"),
        text("dst_kind"),
        "throughput_gbps",
        "exposed_ns",
        "host_blocked_ns",
        blocking_words().alias("blocking"),
        text("migration_cause"),
        category=pl.lit("memcpy"),
    )


def _memsets(trace: Trace) -> pl.DataFrame:
    return with_gpu(trace.table("memsets"), trace).select(
        *_LANE,
        pl.lit("Memset", pl.Categorical).alias("name"),
        "correlation_id",
        "bytes",
        pl.col("mem_kind").cast(pl.String),
        category=pl.lit("memset"),
    )


def blocking_words() -> pl.Expr:
    """Why a copy blocks as one text, from its list `blocking`; null where it does not."""
    words = pl.col("blocking").list.join(" ")
    return pl.when(words != "").then(words)


def _in_analysed_time(rows: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """The rows that any GPU's window covers a part of; of an empty row, its start."""
    if trace.windows is None:
        return rows
    analysed = intervals.union(*(trace.windows[c].to_numpy() for c in ("start_ns", "end_ns")))
    starts, ends = (rows[c].to_numpy() for c in ("start_ns", "end_ns"))
    part = intervals.covered_between(analysed, starts, ends) > 0
    return rows.filter(pl.Series(part | intervals.covering(analysed, starts)))
