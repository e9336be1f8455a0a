"""Tracks of what the analyses found: iterations, loops, findings, gaps, copies, counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.analyses.findings import findings
from nsys_deepprof.analyses.gaps import PART_COLUMNS, gaps
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS, STATES
from nsys_deepprof.analyses.iterations import iterations
from nsys_deepprof.analyses.loop_turns import loop_turns
from nsys_deepprof.analyses.memcpy import memcpy
from nsys_deepprof.analyses.queue_depth import queue_depth
from nsys_deepprof.analyses.recorded_tracks import blocking_words, or_unknown, stream_name
from nsys_deepprof.analyses.timeline import timeline
from nsys_deepprof.tracks import Counters, Slices

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

STATE_BINS = 4_096
"""Bins of the GPU-state counters, per GPU."""


def iteration_tracks(trace: Trace, gpu_process: pl.DataFrame) -> Slices:
    """Iterations, by their number; slow ones say so, and why. Category: iteration."""
    rows = iterations(trace).frame
    index = pl.format("iteration {}", "index")
    return Slices(
        rows.join(gpu_process, on="gpu", how="left", maintain_order="left").select(
            "process",
            "start_ns",
            "end_ns",
            "kernels",
            *STATE_COLUMNS,
            "variant",
            "pattern",
            "explanation",
            track=pl.format("iterations of stream {} (pid {})", "stream_id", or_unknown("pid")),
            category=pl.lit("iteration"),
            name=pl.when("outlier").then(pl.format("{} (slow)", index)).otherwise(index),
        )
    )


def loop_tracks(trace: Trace, gpu_process: pl.DataFrame) -> Slices:
    """Loops by level, each above its turns, outer levels first. Category: loop."""
    whole = pl.format("({})x{} {}", "length", "times", "pattern")
    level = pl.format("loops of {}, level {}", stream_name(), "level")
    return Slices(
        loop_turns(trace)
        .join(gpu_process, on="gpu", how="left", maintain_order="left")
        .select(
            "process",
            "start_ns",
            "end_ns",
            "pattern",
            "length",
            "times",
            "turn",
            track=level,
            category=pl.lit("loop"),
            name=pl.when(pl.col("turn").is_null()).then(whole).otherwise("pattern"),
        )
    )


def finding_tracks(trace: Trace, gpu_process: pl.DataFrame) -> Slices:
    """The dearest places of each finding, named by it; findings in their order of rank.
    Category: finding."""
    ranked = findings(trace).frame.with_row_index("rank", offset=1)
    places = ranked.select(
        "rank",
        "kind",
        "title",
        "severity",
        "advice",
        pl.col("evidence").struct.field("rows").alias("place"),
    )
    return Slices(
        places.explode("place")
        .filter(pl.col("place").is_not_null())
        .unnest("place")
        .join(gpu_process, on="gpu", how="inner", maintain_order="left")
        .select(
            "process",
            "start_ns",
            "end_ns",
            "title",
            "advice",
            "lost_ns",
            severity=pl.col("severity").cast(pl.String),
            track=pl.lit("findings (dearest places)"),
            category=pl.lit("finding"),
            name=pl.format("{}. {}", "rank", "kind"),
        )
    )


def gap_tracks(trace: Trace, gpu_process: pl.DataFrame, *, min_gap_ns: int) -> Slices:
    """Idle gaps of at least `min_gap_ns`, named by their cause. Category: gap."""
    parts = [pl.when(pl.col(c) > 0).then(pl.col(c)).alias(c) for c in PART_COLUMNS]
    rows = gaps(trace, min_gap_ns=min_gap_ns).frame.sort("gpu", "start_ns")
    return Slices(
        rows.join(gpu_process, on="gpu", how="left", maintain_order="left").select(
            "process",
            "start_ns",
            "end_ns",
            *parts,
            "drained_by",
            "prev_op",
            "next_op",
            "next_api",
            "nvtx",
            "iteration",
            track=pl.lit("idle gaps"),
            category=pl.lit("gap"),
            name=pl.col("cause").cast(pl.String),
        )
    )


def blocking_copy_tracks(trace: Trace, gpu_process: pl.DataFrame) -> Slices:
    """Copies that block the host, named by kind and reason. Category: blocking_copy."""
    rows = memcpy(trace, only_blocking=True).frame.sort("gpu", "start_ns")
    return Slices(
        rows.join(gpu_process, on="gpu", how="left", maintain_order="left").select(
            "process",
            "start_ns",
            "end_ns",
            "stream_id",
            "bytes",
            "exposed_ns",
            "host_blocked_ns",
            "awaited_ns",
            "throughput_gbps",
            "api",
            "nvtx",
            "iteration",
            track=pl.lit("blocking copies"),
            category=pl.lit("blocking_copy"),
            name=pl.format("{} {}", "kind", blocking_words()),
        )
    )


def state_counters(trace: Trace, gpu_process: pl.DataFrame) -> Counters:
    """Each state's share of the analysed time, in percent, over `STATE_BINS` equal bins per GPU.

    The five add up to 100; where nothing is analysed all of them are 0. A state that never occurs
    on a GPU has no counter there.
    """
    bins = timeline(trace, max_bins=STATE_BINS * gpu_process.height)
    columns = {f"{state}_ns": f"GPU {state}" for state in (*STATES, "idle")}
    known = pl.sum_horizontal(columns.keys())
    last = bins.group_by("gpu", maintain_order=True).agg(pl.col("end_ns").max().alias("start_ns"))
    shares = pl.concat(
        [
            bins.select(
                "gpu",
                "start_ns",
                *(
                    pl.when(known > 0).then(100 * pl.col(c) / known).otherwise(0.0).alias(name)
                    for c, name in columns.items()
                ),
            ),
            last.with_columns(pl.lit(0.0).alias(name) for name in columns.values()),
        ]
    )
    return Counters(
        "%",
        shares.unpivot(index=["gpu", "start_ns"], variable_name="track")
        .filter((pl.col("value") > 0).any().over("gpu", "track"))
        .filter((pl.col("value") != pl.col("value").shift(1)).fill_null(True).over("gpu", "track"))
        .join(gpu_process, on="gpu", how="left", maintain_order="left")
        .select("process", "track", pl.col("start_ns").alias("time_ns"), "value"),
    )


def queue_counters(
    trace: Trace, gpu_process: pl.DataFrame, *, max_changes: int | None = None
) -> Counters:
    """Launches that wait on each stream, at each change: see `queue_depth`.

    Of a stream with more than `max_changes` the deepest in each of so many equal bins of time.
    """
    depths = queue_depth(trace)
    if max_changes is not None:
        depths = _thinned(depths, max_changes)
    return Counters(
        "launches",
        depths.join(gpu_process, on="gpu", how="left", maintain_order="left").select(
            "process",
            "time_ns",
            track=pl.concat_str(pl.lit("queue depth of "), stream_name()),
            value=pl.col("depth").cast(pl.Float64),
        ),
    )


def _thinned(depths: pl.DataFrame, max_changes: int) -> pl.DataFrame:
    lane = ["gpu", "pid", "global_pid", "context_id", "stream_id"]
    time = pl.col("time_ns")
    first, last = time.min().over(lane), time.max().over(lane)
    bin_of = (time - first) * max_changes // (last - first + 1)
    many = pl.len().over(lane) > max_changes
    return (
        depths.with_columns(
            pl.when(many).then(bin_of).otherwise(pl.int_range(pl.len()).over(lane)).alias("bin")
        )
        .group_by(*lane, "bin", maintain_order=True)
        .agg(time.first(), pl.col("depth").max())
        .drop("bin")
    )
