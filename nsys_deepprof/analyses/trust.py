"""What in a capture cannot be trusted, said before any conclusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof import host, intervals
from nsys_deepprof.derived import DEVICE_TABLES
from nsys_deepprof.device import whole_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsys_deepprof.trace import Trace

DROPPED_SHARE = 0.01
"""Dropped rows of a table above this share are said first."""

PROFILER_SHARE = 0.05
"""Profiler overhead above this share of the trace is said first."""

SUPPORTED_SCHEMA_MAJOR = (2, 3)


def capture_warnings(trace: Trace) -> tuple[str, ...]:
    """Sentences for the top of every output; none where the capture is sound.

    Cheap enough for any command: reads the device tables, the calls and the overheads.
    """
    return trace.once("capture_warnings", lambda: tuple(_warnings(trace)), whole_trace=True)


def _warnings(trace: Trace) -> Iterator[str]:
    schema = trace.capture.schema_version
    major = schema.split(".")[0] if schema else ""
    if major.isdigit() and int(major) not in SUPPORTED_SCHEMA_MAJOR:
        yield (
            f"Schema version {schema} is newer than this tool knows: "
            "columns may have changed their meaning."
        )
    for table in (*DEVICE_TABLES, "api_calls"):
        facts = trace.facts(table)
        lost = sum(facts.dropped.values())
        if facts.source_rows and lost / facts.source_rows > DROPPED_SHARE:
            reasons = ", ".join(f"{n:,} {r.replace('_', ' ')}" for r, n in facts.dropped.items())
            yield f"{lost:,} of {facts.source_rows:,} rows of {table} were dropped: {reasons}."
    if not any(trace.table(t).height for t in DEVICE_TABLES):
        return
    graphs = whole_graphs(trace).height
    if graphs:
        yield (
            f"{graphs:,} CUDA-graph launches were traced as a whole: the kernels inside them were "
            "not recorded, and idle time inside a graph is unknown "
            "(capture with --cuda-graph-trace=node to see them)."
        )
    if not trace.has("api_calls"):
        yield "No CUDA API calls were traced: the causes of idle gaps are unknown."
    elif not trace.has("os_calls"):
        yield (
            "No OS runtime calls were traced: host time outside of CUDA calls is unexplained "
            "(capture with -t cuda,nvtx,osrt)."
        )
    share = _profiler_share(trace)
    if share > PROFILER_SHARE:
        yield (
            f"The profiler itself held threads for {share:.0%} of the trace: "
            "times near it are longer than without it."
        )


def _profiler_share(trace: Trace) -> float:
    overheads = trace.table("profiler_overheads").filter(host.profilers_own())
    devices = pl.concat([trace.table(t).select("start_ns", "end_ns") for t in DEVICE_TABLES])
    first, last = devices["start_ns"].min(), devices["end_ns"].max()
    if overheads.height == 0 or not isinstance(first, int) or not isinstance(last, int):
        return 0.0
    held = intervals.union(overheads["start_ns"].to_numpy(), overheads["end_ns"].to_numpy())
    inside = intervals.total(intervals.clip(held, first, last))
    return inside / (last - first) if last > first else 0.0
