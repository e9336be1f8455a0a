"""Findings about a host that issues work too late."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof import host
from nsys_deepprof.cuda_api import classify
from nsys_deepprof.rules.finding import (
    MIN_SHARE,
    PLACE,
    Evidence,
    Finding,
    by_place,
    dearest,
    finding,
    how_often,
    joined,
    per_time,
    quoted,
)
from nsys_deepprof.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

STALL_PLACE_NS = 100_000
"""A place whose gaps are this long on average is a stall of its own; shorter ones are the pace of
launching."""

LONG_PAUSE_NS = 1_000_000
"""A gap this long is a pause of the host even where its place does not matter alone."""

_FILE_CALL = re.compile(
    r"f?p?(?:read|write)(?:v|64)?|f?open(?:at|64)?|f?close|fsync|fdatasync|fl?stat\w*|mmap(?:64)?"
    r"|munmap|l?f?seek|f?getc|fgets|getline|recv(?:from|msg)?|send(?:to|msg)?"
)

_NEXT_STEP = (
    "What the host does there is not in the capture: look at the code in that place, or capture "
    "again with -t cuda,nvtx,osrt and --python-sampling=true."
)


def synchronises(evidence: Evidence) -> Iterator[Finding]:
    """The host waits for the GPU, and the GPU then for the host: a finding a place.

    Formula: gaps whose launching thread came out of a synchronising call, or is in one, and did
    less than 1 ms of work of its own since.
    """
    pieces = evidence.of("synchronise")
    for gaps, one_place in by_place(evidence, pieces, key=["what", "prev_op", "next_op"]):
        api = dearest(gaps, "what") or "a synchronising call"
        lost = int(gaps["lost_ns"].sum())
        yield finding(
            evidence,
            gaps,
            kind="synchronise",
            title=f"The GPU runs dry after {api}: {how_often(evidence, gaps)}, "
            f"{evidence.cost(lost)}",
            advice="Take the synchronise out of the loop, or move it to where a result is read: "
            "work that is queued ahead keeps the GPU busy. Order streams with events instead "
            "(cudaStreamWaitEvent); time with events, not with synchronise and a clock.",
            formula="idle time behind synchronising calls",
            one_place=one_place,
            api=dearest(gaps, "what"),
        )


def os_waits(evidence: Evidence) -> Iterator[Finding]:
    """The launching thread sits in an OS call (locks, files, pipes, sleeps): a finding a place.

    Formula: gaps at least half of which the launching thread spends in OS runtime calls.
    """
    pieces = evidence.of("os_wait")
    for gaps, one_place in by_place(evidence, pieces):
        call = dearest(gaps, "what") or "OS runtime calls"
        lost = int(gaps["lost_ns"].sum())
        yield finding(
            evidence,
            gaps,
            kind="os_wait",
            title=f"The GPU waits while the launching thread is in {quoted(call)}: "
            f"{how_often(evidence, gaps)}, {evidence.cost(lost)}",
            advice=_os_advice(call),
            formula="idle time in which the launching thread is in OS runtime calls",
            one_place=one_place,
            api=call,
        )


def _os_advice(call: str) -> str:
    if _FILE_CALL.fullmatch(call):
        return (
            "The thread that launches work also does file or pipe work: give it to other threads "
            "or processes (data loader workers, asynchronous checkpoints), and read ahead."
        )
    if "sleep" in call:
        return "The launching thread sleeps: wait for an event or a condition instead of polling."
    return (
        "The launching thread waits for another thread or process: if that prepares input, give "
        "it more workers and let it run ahead (num_workers, prefetch_factor, persistent_workers); "
        "if it holds a lock (the Python GIL, an allocator), keep it off the launching path."
    )


def cuda_calls(evidence: Evidence) -> Iterator[Finding]:
    """The launching thread is in CUDA calls that neither launch, wait, allocate nor load.

    Formula: gaps at least half of which such calls take, and calls that took 100 us and more to
    issue the work that ends a gap.
    """
    for kind, verb in (("cuda_call", "is in"), ("slow_call", "takes long in")):
        for gaps, one_place in by_place(evidence, evidence.of(kind), key=["what"]):
            call = dearest(gaps, "what") or "CUDA calls"
            lost = int(gaps["lost_ns"].sum())
            yield finding(
                evidence,
                gaps,
                kind=kind,
                title=f"The GPU waits while the host {verb} {call}: {how_often(evidence, gaps)}, "
                f"{evidence.cost(lost)}",
                advice=_call_advice(call),
                formula="idle time in other CUDA calls"
                if kind == "cuda_call"
                else "idle time in launching calls of 100 us and more",
                one_place=one_place and gaps.select(pl.struct(PLACE).n_unique()).item() == 1,
                api=call,
            )


def _call_advice(call: str) -> str:
    if classify(call) in ("launch", "graph_launch", "async_copy", "async_memset", "other"):
        return (
            "Such a call returns in microseconds unless the driver is busy: another thread holds "
            "its lock, the profiler flushes its buffers, or the launch queue is full. Create and "
            "destroy streams, events and graphs once, outside of the loop."
        )
    return "Move the call out of the loop, or issue the next work before it."


def allocations(evidence: Evidence) -> Iterator[Finding]:
    """The launching thread allocates or frees while the GPU is idle.

    Formula: the alloc part of all gaps.
    """
    pieces = evidence.of("allocation")
    lost = int(pieces["lost_ns"].sum())
    if not evidence.matters(lost):
        return
    calls = _common(pieces)
    yield finding(
        evidence,
        pieces,
        kind="allocation",
        title=f"The GPU waits for memory management ({calls}): {how_often(evidence, pieces)}, "
        f"{evidence.cost(lost)}",
        advice="Allocate once, outside of the loop, or from a pool: PyTorch's caching allocator "
        "(avoid empty_cache and growing shapes; expandable_segments:True), cudaMallocAsync. "
        "cudaFree waits for the whole device.",
        formula="alloc_ns of all gaps",
        one_place=False,
        api=dearest(pieces, "what"),
    )


def module_loading(evidence: Evidence) -> Iterator[Finding]:
    """Code is loaded or compiled while the GPU is idle.

    Formula: the load part of all gaps, the driver's loading rows among the overheads, and first
    launches of a kernel that took 100 us and more.
    """
    pieces = evidence.of("module_loading")
    lost = int(pieces["lost_ns"].sum())
    if not evidence.matters(lost):
        return
    yield finding(
        evidence,
        pieces,
        kind="module_loading",
        title=f"The GPU waits for code to be loaded: {how_often(evidence, pieces)}, "
        f"{evidence.cost(lost)}",
        advice="This happens once per kernel: warm up before measuring (and before serving). "
        "CUDA_MODULE_LOADING=EAGER moves it to the start; ship SASS for this GPU so that nothing "
        "is compiled from PTX.",
        formula="load_ns + driver_load_ns of all gaps + first launches of 100 us and more",
        one_place=False,
        api=dearest(pieces, "what"),
    )


def profiler_cost(evidence: Evidence) -> Iterator[Finding]:
    """The profiler holds the launching thread while the GPU is idle: gone without it.

    Formula: the profiler part of all gaps, without the driver's own rows among the overheads.
    """
    pieces = evidence.of("profiler")
    lost = int(pieces["lost_ns"].sum())
    if not evidence.matters(lost):
        return
    what = dearest(pieces, "what")
    name = f" ({what})" if what else ""
    yield finding(
        evidence,
        pieces,
        kind="profiler",
        title=f"The profiler itself holds up the GPU{name}: {how_often(evidence, pieces)}, "
        f"{evidence.cost(lost)}",
        advice="This is the cost of measuring, not of the program: leave the start of the "
        "capture out (--from), trace less (-t cuda,nvtx, fewer backtraces), or capture a range "
        "(--capture-range=cudaProfilerApi).",
        formula="profiler_ns - driver_load_ns - queue_full_ns of all gaps",
        one_place=False,
        api=what,
    )


def host_stalls(evidence: Evidence) -> Iterator[Finding]:
    """The host is away for long: a finding a place, and one for long pauses elsewhere.

    Formula: gaps in which the launching thread is outside of CUDA and OS calls, at places where
    they take 100 us and more on average, or that are of 1 ms and more.
    """
    stalls, _ = _split_host_late(evidence)
    for gaps, one_place in by_place(evidence, stalls):
        lost = int(gaps["lost_ns"].sum())
        yield finding(
            evidence,
            gaps,
            kind="host_stall",
            title=f"The GPU waits for the host's own code, {per_time(gaps)}: "
            f"{how_often(evidence, gaps)}, {evidence.cost(lost)}",
            advice=_stall_advice(gaps),
            formula="idle time without CUDA or OS calls: pauses of 1 ms and more, and places of "
            "100 us and more a time on average",
            one_place=one_place,
        )


def _stall_advice(gaps: pl.DataFrame) -> str:
    uploads = gaps.filter(pl.col("next_op").cast(pl.String).str.starts_with("Memcpy HtoD"))
    if 2 * int(uploads["lost_ns"].sum()) >= int(gaps["lost_ns"].sum()):
        return (
            "Mostly before an upload: the host was probably preparing it. Prepare input in "
            "other processes and ahead of time (data loader workers, prefetching). " + _NEXT_STEP
        )
    return "Move this host work off the launching thread or overlap it with queued GPU work. " + (
        _NEXT_STEP
    )


def launch_bound(evidence: Evidence) -> Iterator[Finding]:
    """The GPU finishes each kernel before the host has launched the next.

    Formula: gaps in which the launching thread is outside of CUDA and OS calls or launching, that
    are not stalls.
    """
    _, gaps = _split_host_late(evidence)
    lost = int(gaps["lost_ns"].sum())
    if not evidence.matters(lost):
        return
    kernel_ns, interval_ns = _pace(evidence)
    pace = ""
    if kernel_ns is not None and interval_ns is not None and kernel_ns < interval_ns:
        pace = (
            f"; a kernel runs {format_ns(kernel_ns)}, a launch comes every "
            f"{format_ns(interval_ns)} (medians)"
        )
    yield finding(
        evidence,
        gaps,
        kind="launch_bound",
        title=f"The GPU runs out of launched work (launch-bound): {how_often(evidence, gaps)}, "
        f"{evidence.cost(lost)}{pace}",
        advice="Launch less or cheaper: CUDA graphs (torch.compile(mode='reduce-overhead')), "
        "fused kernels and optimizers (fused=True, foreach), larger batches, less Python per "
        "operation.",
        formula="idle time between launches, but for pauses of 1 ms and more and for places that "
        "stall",
        one_place=False,
        kernel_median_ns=kernel_ns,
        launch_interval_ns=interval_ns,
    )


def _split_host_late(evidence: Evidence) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Stalls, and the rest: the pace of launching."""
    pieces = evidence.of("host_late")
    long_place = pl.col("lost_ns").mean().over(PLACE) >= STALL_PLACE_NS
    dear_place = pl.col("lost_ns").sum().over(PLACE) >= MIN_SHARE * evidence.wall_ns
    stall = (long_place & dear_place) | (pl.col("lost_ns") >= LONG_PAUSE_NS)
    return pieces.filter(stall), pieces.filter(~stall)


def _pace(evidence: Evidence) -> tuple[float | None, float | None]:
    """Median duration of kernels, and median time from one launch to the thread's next."""
    kernels = evidence.trace.table("kernels")
    duration = kernels.select((pl.col("end_ns") - pl.col("start_ns")).median()).item()
    interval = (
        host.api_calls(evidence.trace)
        .filter(pl.col("api_class") == "launch")
        .select(pl.col("start_ns").diff().over("global_tid").median())
        .item()
    )
    return duration, interval


def _common(pieces: pl.DataFrame) -> str:
    """The calls on which most is lost."""
    totals = (
        pieces.filter(pl.col("what").is_not_null())
        .group_by("what", maintain_order=True)
        .agg(pl.col("lost_ns").sum())
        .sort("lost_ns", descending=True, maintain_order=True)
        .head(2)
    )
    return joined(totals["what"].cast(pl.String)) if totals.height else "allocating and freeing"
