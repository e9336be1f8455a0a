"""What to change first: causes ranked by the time that fixing each can give back at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof import host
from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import analysed_windows, gpu_states
from nsys_deepprof.analyses.iteration_of import found_iterations
from nsys_deepprof.analyses.lost_time import lost_time
from nsys_deepprof.intervals import total
from nsys_deepprof.result import Result
from nsys_deepprof.rules import RULES
from nsys_deepprof.rules.finding import (
    EVIDENCE,
    HIGH_SHARE,
    MEDIUM_SHARE,
    MIN_SHARE,
    Evidence,
    Finding,
)
from nsys_deepprof.units import format_ns, format_share

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

HEALTHY_COMPUTE_SHARE = 0.90
"""A GPU that computes for more than this share of its window gets no finding about gaps."""

SCHEMA: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "title": pl.String(),
    "severity": pl.Enum(["high", "medium", "low"]),
    "recoverable_ns": pl.Int64(),
    "recoverable_share": pl.Float64(),
    "speedup_max": pl.Float64(),
    "occurrences": pl.Int64(),
    "where": pl.String(),
    "advice": pl.String(),
    "evidence": pl.Struct(EVIDENCE),
}


@with_context
def findings(trace: Trace) -> Result:
    """Causes of lost GPU time, dearest first; none for a healthy run.

    Lost time is what the GPUs spend idle or only copying (`lost_time`); each nanosecond is claimed
    by one finding at most. `recoverable_ns` is the claimed time of all GPUs added up, an upper
    bound of what fixing the cause gives back; `recoverable_share` is that over the analysed wall
    time, which is the analysed windows of all GPUs added up; `speedup_max` is T / (T - R) - 1.
    They are null for a cost that is neither idle nor exposed copy (communication, memsets).
    `severity` is high from 10 % of the wall on, medium from 3 %, low from 1 %; below there is no
    finding. A GPU, and a run, that computes for over 90 % of its time gets none about gaps.
    `evidence` is a struct: see `rules.finding.EVIDENCE`.

    Extra keys: `status` ('ok' or 'no_gpu_activity'), `wall_ns`, `compute_ns`, `comm_ns`,
    `idle_ns`, `exposed_copy_ns`, `recoverable_ns` (all findings together), `speedup_max`,
    `unknown_idle_ns` (the capture does not tell why), `rules` (name and formula).
    """
    evidence = _evidence(trace)
    pieces = lost_time(trace)
    found = [finding for rule in RULES for finding in rule(evidence)]
    found.sort(key=lambda f: -f.cost_ns)
    recoverable_ns = sum(f.recoverable_ns or 0 for f in found)
    idle_ns, exposed_copy_ns, unknown_ns = pieces.select(
        pl.col("idle_ns").sum(),
        pl.col("copy_ns").sum(),
        pl.col("idle_ns").filter(pl.col("kind") == "unknown").sum().alias("unknown_ns"),
    ).row(0)
    extra: dict[str, Any] = {
        "status": "ok" if trace.table("gpus").height else "no_gpu_activity",
        "wall_ns": evidence.wall_ns,
        "compute_ns": evidence.compute_ns,
        "comm_ns": evidence.comm_ns,
        "idle_ns": idle_ns,
        "exposed_copy_ns": exposed_copy_ns,
        "recoverable_ns": recoverable_ns,
        "speedup_max": _speedup(evidence.wall_ns, recoverable_ns),
        "unknown_idle_ns": unknown_ns,
        "rules": [{"rule": r.__name__, "formula": _formula(r.__doc__)} for r in RULES],
    }
    frame = pl.DataFrame([_row(f, evidence) for f in found], schema=SCHEMA)
    return Result("findings", frame, extra, tuple(_notes(trace, evidence, found, unknown_ns)))


def _evidence(trace: Trace) -> Evidence:
    spans: dict[int, int] = {}
    compute: dict[int, int] = {}
    comm_ns = memset_ns = 0
    for gpu, window in analysed_windows(trace).items():
        split = gpu_states(trace)[gpu].split(*window)
        spans[gpu] = total(window)
        compute[gpu] = int(split["compute_ns"].sum())
        comm_ns += int(split["comm_ns"].sum())
        memset_ns += int(split["memset_ns"].sum())
    wall_ns, compute_ns = sum(spans.values()), sum(compute.values())
    healthy_run = compute_ns > HEALTHY_COMPUTE_SHARE * wall_ns
    healthy = [
        gpu for gpu in spans if healthy_run or compute[gpu] > HEALTHY_COMPUTE_SHARE * spans[gpu]
    ]
    pieces = lost_time(trace)
    if healthy:
        pieces = pieces.filter((pl.col("copy_ns") > 0) | ~pl.col("gpu").is_in(healthy))
    iterations = found_iterations(trace).group_by("gpu").len()["len"].max()
    return Evidence(
        trace=trace,
        pieces=pieces,
        wall_ns=wall_ns,
        compute_ns=compute_ns,
        comm_ns=comm_ns,
        memset_ns=memset_ns,
        iterations=iterations if isinstance(iterations, int) else 0,
        memory_kinds=trace.table("memcpys")["src_kind"].drop_nulls().len() > 0,
    )


def _row(finding: Finding, evidence: Evidence) -> dict[str, Any]:
    recoverable_ns = finding.recoverable_ns
    share = evidence.share(finding.cost_ns)
    return {
        "kind": finding.kind,
        "title": finding.title,
        "severity": "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low",
        "recoverable_ns": recoverable_ns,
        "recoverable_share": None if recoverable_ns is None else evidence.share(recoverable_ns),
        "speedup_max": None
        if recoverable_ns is None
        else _speedup(evidence.wall_ns, recoverable_ns),
        "occurrences": finding.occurrences,
        "where": finding.where,
        "advice": finding.advice,
        "evidence": {name: finding.evidence.get(name) for name in EVIDENCE},
    }


def _speedup(wall_ns: int, recoverable_ns: int) -> float | None:
    left = wall_ns - recoverable_ns
    return wall_ns / left - 1 if left > 0 else None


def _formula(doc: str | None) -> str:
    text = " ".join((doc or "").split())
    return text.partition("Formula: ")[2]


def _notes(trace: Trace, evidence: Evidence, found: list[Finding], unknown_ns: int) -> list[str]:
    if trace.table("gpus").height == 0:
        return ["No GPU activity in this capture: there is nothing to find."]
    if evidence.wall_ns == 0:
        return ["No GPU activity in the analysed time: there is nothing to find."]
    notes = []
    compute_share = evidence.share(evidence.compute_ns)
    if not found:
        other = "known" if evidence.matters(unknown_ns) else "other"
        notes.append(
            f"Nothing found: {format_share(compute_share)} of the time is compute, and no {other} "
            f"cause takes {format_share(MIN_SHARE)} of it."
        )
    queue_full_ns = _queue_full_ns(trace)
    if evidence.matters(queue_full_ns):
        notes.append(
            f"Threads were held for {format_ns(queue_full_ns)} by a full launch queue: there the "
            "host is ahead of the GPU, and launching faster gains nothing."
        )
    if evidence.matters(unknown_ns):
        notes.append(
            f"The GPU is idle for {evidence.cost(unknown_ns)} without a cause: the calls that "
            "ended these gaps are not in the capture."
        )
    claimed = sum(f.recoverable_ns or 0 for f in found)
    if claimed:
        gpus = len(evidence.trace.table("gpus")["gpu"].unique())
        of = f", the windows of {gpus} GPUs added up" if gpus > 1 else ""
        apart = any(f.recoverable_ns is None for f in found)
        without = ", without those that are neither idle time nor exposed copies" if apart else ""
        notes.append(
            f"Shares are of {format_ns(evidence.wall_ns)} of GPU time{of}. All findings together"
            f"{without}: at most {format_ns(claimed)}{_gain(evidence.wall_ns, claimed)}."
        )
    return notes


def _queue_full_ns(trace: Trace) -> int:
    """Time of the whole trace in which the driver held threads for want of room in the queue."""
    held = trace.table("profiler_overheads").filter(host.queue_full())
    return int((held["end_ns"] - held["start_ns"]).sum())


def _gain(wall_ns: int, recoverable_ns: int) -> str:
    speedup = _speedup(wall_ns, recoverable_ns)
    if not speedup:
        return ""
    if speedup < 1:
        return f", {format_share(speedup)} faster at best"
    return f", {speedup + 1:,.1f} times as fast at best"
