"""Findings about the device's side: waits between streams, launch latency, communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import host
from nsys_deepprof.analyses.communication import communication
from nsys_deepprof.analyses.gpu_state import analysed_windows
from nsys_deepprof.copies import blocking_memset
from nsys_deepprof.device import device_ops
from nsys_deepprof.intervals import covered_between
from nsys_deepprof.rules.finding import (
    MIN_SHARE,
    Evidence,
    Finding,
    by_place,
    dearest,
    finding,
    how_often,
    joined,
    quoted,
    top_rows,
)
from nsys_deepprof.units import format_bytes, format_count, format_ns, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

COMM_SHARE = 0.05
"""Exposed communication is said from this share of the wall on."""


def dependencies(evidence: Evidence) -> Iterator[Finding]:
    """Work that was queued in time starts late: it waits for other work. A finding a place.

    Formula: gaps of 10 us and more before work whose launch call had returned when they began, and
    the time from a call's return to the start of its work where that is 100 us and more.
    """
    for gaps, one_place in by_place(evidence, evidence.of("dependency")):
        lost = int(gaps["lost_ns"].sum())
        yield finding(
            evidence,
            gaps,
            kind="dependency",
            title=f"Queued work waits{_for_what(gaps)} with the GPU idle: "
            f"{how_often(evidence, gaps)}, {evidence.cost(lost)}",
            advice="It waits for an event, another stream, another process or the host: look for "
            "cudaStreamWaitEvent, host callbacks and legacy default-stream work before it, and "
            "let streams wait as late as they can.",
            formula="idle time before work that had been launched, 10 us and more a time",
            one_place=one_place,
        )


def _for_what(gaps: pl.DataFrame) -> str:
    streams = dearest(gaps.filter(pl.col("what").cast(pl.String).str.starts_with("stream")), "what")
    return f" for {streams}" if streams else ""


def launch_latency(evidence: Evidence) -> Iterator[Finding]:
    """Small gaps between queued operations: the device's own cost of starting each.

    Formula: gaps under 10 us before work whose launch call had returned when they began.
    """
    gaps = evidence.of("launch_latency")
    lost = int(gaps["lost_ns"].sum())
    if not evidence.matters(lost):
        return
    yield finding(
        evidence,
        gaps,
        kind="launch_latency",
        title=f"Starting many short operations costs the GPU {evidence.cost(lost)}: "
        f"{how_often(evidence, gaps)}",
        advice="Fewer, longer operations: fuse elementwise work (torch.compile), use fused "
        "optimizers, CUDA graphs, or larger batches.",
        formula="idle time under 10 us before work that had been launched",
        one_place=False,
    )


def exposed_communication(evidence: Evidence) -> Iterator[Finding]:
    """Communication kernels run and no compute does.

    Formula: comm time (the GPU state) of 5 % of the wall and more. It is no idle time, so nothing
    is claimed as recoverable: part of it may be waiting for slower ranks.
    """
    cost_ns = evidence.comm_ns
    if evidence.share(cost_ns) < COMM_SHARE:
        return
    ops = device_ops(evidence.trace)
    comm = _inside(evidence, ops.filter(pl.col("state") == "comm"))
    by_name = (
        comm.group_by("name", maintain_order=True)
        .agg(pl.col("lost_ns").sum())
        .sort("lost_ns", descending=True, maintain_order=True)
    )
    name = quoted(str(by_name["name"].cast(pl.String)[0]))
    apart = communication(evidence.trace).extra
    waits = apart["gpus"]["wait_ns"].drop_nulls()
    waiting = ""
    if apart["straggler"] is not None and evidence.matters(int(waits.sum())):
        waiting = (
            f"; {format_ns(int(waits.sum()))} of it GPUs wait for the last one to arrive, most "
            f"often GPU {apart['straggler']}"
        )
    total = int(comm["lost_ns"].sum())
    yield Finding(
        kind="exposed_communication",
        title=f"Communication runs with no compute beside it: {evidence.cost(cost_ns)}; "
        f"{format_share(cost_ns / total)} of all communication, most of it {name}{waiting}",
        cost_ns=cost_ns,
        recoverable_ns=None,
        occurrences=comm.height,
        where=f"{format_count(comm.height)} communication kernels on GPU "
        + joined(str(gpu) for gpu in comm["gpu"].unique().sort()),
        advice="Overlap it with compute: smaller buckets that start earlier (DDP bucket_cap_mb, "
        "FSDP prefetching), fewer and larger collectives where latency rules. Where GPUs wait for "
        "one of them, speed that one up first: `nsys-deepprof communication` tells them apart.",
        evidence={
            "rule": "exposed_communication",
            "formula": "comm_ns of all GPUs",
            "threshold": COMM_SHARE,
            "gpus": comm["gpu"].unique().sort().to_list(),
            "comm_ns": cost_ns,
            "median_ns": comm["lost_ns"].median(),
            "max_ns": comm["lost_ns"].max(),
            "rows": top_rows(comm),
        },
    )


def exposed_memsets(evidence: Evidence) -> Iterator[Finding]:
    """Memsets run and nothing else does.

    Formula: memset time (the GPU state) of 1 % of the wall and more. It is neither idle nor copy,
    so nothing is claimed as recoverable.
    """
    if not evidence.matters(evidence.memset_ns):
        return
    sets = _inside(evidence, host.with_calls(evidence.trace, "memsets"))
    waiting = sets.filter(blocking_memset())
    held_ns = int((waiting["call_end_ns"] - waiting["call_start_ns"]).sum())
    synchronous = (
        f"; {format_count(waiting.height)} of them are synchronous and hold the host for "
        f"{format_ns(held_ns)}"
        if waiting.height
        else ""
    )
    yield Finding(
        kind="exposed_memset",
        title=f"Memsets run with nothing beside them: {format_count(sets.height)} memsets, "
        f"{format_bytes(int(sets['bytes'].sum()))}, {evidence.cost(evidence.memset_ns)}"
        f"{synchronous}",
        cost_ns=evidence.memset_ns,
        recoverable_ns=None,
        occurrences=sets.height,
        where="on GPU " + joined(str(gpu) for gpu in sets["gpu"].unique().sort()),
        advice="Clear only what is read before it is written; clear once and reuse; let the "
        "kernel that fills the buffer clear it (zero_grad(set_to_none=True), torch.empty instead "
        "of torch.zeros); use the Async form for pinned and managed memory.",
        evidence={
            "rule": "exposed_memset",
            "formula": "memset_ns of all GPUs",
            "threshold": MIN_SHARE,
            "gpus": sets["gpu"].unique().sort().to_list(),
            "bytes": int(sets["bytes"].sum()),
            "host_blocked_ns": held_ns,
            "median_ns": sets["lost_ns"].median(),
            "max_ns": sets["lost_ns"].max(),
            "rows": top_rows(sets),
        },
    )


def _inside(evidence: Evidence, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that run in the analysed time, with `lost_ns`, the part of each inside it."""
    lost = np.zeros(rows.height, np.int64)
    gpus, starts, ends = (rows[c].to_numpy() for c in ("gpu", "start_ns", "end_ns"))
    for gpu, window in analysed_windows(evidence.trace).items():
        mine = np.flatnonzero(gpus == gpu)
        lost[mine] = covered_between(window, starts[mine], ends[mine])
    return rows.with_columns(pl.Series("lost_ns", lost)).filter(pl.col("lost_ns") > 0)
