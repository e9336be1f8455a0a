"""Everything that a timeline viewer is shown of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.analyses.added_tracks import (
    STATE_BINS,
    blocking_copy_tracks,
    finding_tracks,
    gap_tracks,
    iteration_tracks,
    loop_tracks,
    queue_counters,
    state_counters,
)
from nsys_deepprof.analyses.gaps import DEFAULT_MIN_GAP_NS
from nsys_deepprof.analyses.recorded_tracks import or_unknown, stream_tracks, thread_tracks
from nsys_deepprof.ids import global_pid_of, pid_of
from nsys_deepprof.tracks import Counters, Slices, Tracks, place

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace


def timeline_tracks(
    trace: Trace, *, only_annotations: bool = False, min_gap_ns: int = DEFAULT_MIN_GAP_NS
) -> Tracks:
    """A process per GPU with the tracks that this tool adds and, below them, its streams; then a
    process per host process with its threads' NVTX ranges and CUDA calls.

    `only_annotations` leaves out what the capture itself recorded, and thins the queue counters.
    Idle gaps shorter than `min_gap_ns` are left out. The counters count what is analysed: see
    `state_counters` and `queue_counters`.
    """
    gpus = _gpu_processes(trace)
    gpu_process = gpus.select("gpu", "process")
    layers: list[Slices | Counters] = [
        iteration_tracks(trace, gpu_process),
        loop_tracks(trace, gpu_process),
        finding_tracks(trace, gpu_process),
        gap_tracks(trace, gpu_process, min_gap_ns=min_gap_ns),
        blocking_copy_tracks(trace, gpu_process),
        state_counters(trace, gpu_process),
        queue_counters(trace, gpu_process, max_changes=STATE_BINS if only_annotations else None),
    ]
    processes = [gpus]
    if not only_annotations:
        hosts = _host_processes(trace, first=gpus.height + 1)
        processes.append(hosts)
        layers.append(stream_tracks(trace, gpu_process))
        layers.append(thread_tracks(trace, hosts.select("global_pid", "process")))
    named = [p.select("process", pl.col("process_name").alias("name")) for p in processes]
    return place(layers, processes=pl.concat(named), origin_ns=trace.span_ns()[0])


def _gpu_processes(trace: Trace) -> pl.DataFrame:
    """One row per analysed GPU: gpu, process, process_name."""
    gpus = trace.table("gpus")
    if trace.windows is not None:
        gpus = gpus.join(trace.windows.select("gpu").unique(), on="gpu", how="semi")
    return (
        gpus.sort("gpu")
        .group_by("gpu", maintain_order=True)
        .agg(pl.col("name").drop_nulls().first(), or_unknown(pl.col("pid").unique().sort()))
        .with_row_index("process", offset=1)
        .select(
            "gpu",
            pl.col("process").cast(pl.Int64),
            pl.concat_str(
                pl.format("GPU {}", "gpu"),
                pl.format(": {}", "name"),
                pl.format(" (pid {})", pl.col("pid").list.join(", ")),
                ignore_nulls=True,
            ).alias("process_name"),
        )
    )


def _host_processes(trace: Trace, *, first: int) -> pl.DataFrame:
    """One row per host process with NVTX ranges or calls: global_pid, process, process_name."""
    seen = pl.concat(
        [
            trace.table(table).select(global_pid_of(pl.col("global_tid")).alias("global_pid"))
            for table in ("api_calls", "nvtx_ranges")
        ]
    )
    known = trace.table("processes").select("global_pid", "name")
    return (
        seen.unique()
        .sort("global_pid")
        .join(known, on="global_pid", how="left", maintain_order="left")
        .with_row_index("process", offset=first)
        .select(
            "global_pid",
            pl.col("process").cast(pl.Int64),
            pl.format(
                "{} (pid {})",
                pl.col("name").fill_null("process"),
                or_unknown(pid_of(pl.col("global_pid"))),
            ).alias("process_name"),
        )
    )
