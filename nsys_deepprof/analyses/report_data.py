"""Everything that a report shows, aggregated to a size that fits a page whatever the trace's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from nsys_deepprof.analyses.findings import findings
from nsys_deepprof.analyses.gaps import all_gaps, gaps
from nsys_deepprof.analyses.info import info
from nsys_deepprof.analyses.kernels import kernels
from nsys_deepprof.analyses.memcpy import memcpy
from nsys_deepprof.analyses.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace

LISTED_GAPS = 100
LISTED_COPIES = 100
LISTED_KERNELS = 400
DRAWN_COPIES = 600
"""Above so many copies a chart draws the dearest ones and groups the rest."""

BINS_PER_DECADE = 5
"""Of gap lengths and of copy throughputs."""


@dataclass(frozen=True)
class Skipped:
    """A part of the report that has no answer: the capture holds no such data ('no_data'), or
    holds too little to tell ('unknown')."""

    kind: Literal["no_data", "unknown"]
    reason: str


@dataclass(frozen=True)
class Section:
    """An answer with its rows cut to what a page lists, and frames made for its charts.

    `total_rows` is the number of rows before the cut.
    """

    result: Result
    total_rows: int
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportData:
    """The parts of a report. Times inside are the trace's own; `origin_ns` is shown as 0."""

    source: str
    origin_ns: int
    info: Result
    findings: Result
    timeline: pl.DataFrame
    gaps: Section | Skipped
    copies: Section | Skipped
    kernels: Section | Skipped


def report_data(trace: Trace) -> ReportData:
    """Run every analysis that the report shows, each once."""
    facts = info(trace)
    idle = facts.extra["status"] == "no_gpu_activity"

    def look(part: Callable[[Trace], Section | Skipped]) -> Section | Skipped:
        if idle:
            return Skipped("no_data", "This capture holds no GPU activity.")
        return part(trace)

    return ReportData(
        source=trace.source,
        origin_ns=trace.span_ns()[0],
        info=facts,
        findings=findings(trace),
        timeline=timeline(trace),
        gaps=look(_gaps),
        copies=look(_copies),
        kernels=look(_kernels),
    )


def _gaps(trace: Trace) -> Section:
    return _section(gaps(trace), LISTED_GAPS, {"histogram": gap_histogram(all_gaps(trace))})


def _copies(trace: Trace) -> Section | Skipped:
    if not trace.has("memcpys"):
        return Skipped("unknown", "The export has no table of memory copies.")
    found = memcpy(trace)
    return _section(found, LISTED_COPIES, {"points": copy_points(found.frame)})


def _kernels(trace: Trace) -> Section | Skipped:
    if not trace.has("kernels"):
        return Skipped("unknown", "The export has no table of kernels.")
    return _section(kernels(trace), LISTED_KERNELS, {})


def _section(result: Result, limit: int, frames: dict[str, pl.DataFrame]) -> Section:
    cut = replace(result, frame=result.frame.head(limit))
    return Section(cut, result.frame.height, frames)


def gap_histogram(every: pl.DataFrame) -> pl.DataFrame:
    """Gaps by cause and length, lengths in `BINS_PER_DECADE` equal steps of their logarithm.

    `every` has cause, duration_ns (above 0). Columns: cause, from_ns, to_ns (bounds of the bin,
    half-open), gaps, total_ns; only bins that hold a gap, sorted.
    """
    lengths = every["duration_ns"].to_numpy()
    longest = int(lengths.max()) if len(lengths) else 1
    steps = int(np.ceil(np.log10(longest + 1) * BINS_PER_DECADE)) + 1
    edges = np.unique(np.round(10 ** (np.arange(steps + 1) / BINS_PER_DECADE)).astype(np.int64))
    index = np.searchsorted(edges, lengths, side="right") - 1
    return (
        every.select("cause", "duration_ns")
        .with_columns(
            pl.Series("from_ns", edges[index], dtype=pl.Int64),
            pl.Series("to_ns", edges[index + 1], dtype=pl.Int64),
        )
        .group_by("cause", "from_ns", "to_ns")
        .agg(pl.len().cast(pl.Int64).alias("gaps"), pl.col("duration_ns").sum().alias("total_ns"))
        .sort("cause", "from_ns")
    )


def copy_points(copies: pl.DataFrame, *, max_points: int = DRAWN_COPIES) -> pl.DataFrame:
    """Copies as points of size and throughput.

    The dearest half of `max_points` (`copies` comes dearest first) are one point each; the rest,
    where all would be too many, are grouped by kind, blocking, and octave of size and step of
    throughput. Copies of no bytes or no duration have no place on the chart and are left out.

    Columns: kind, blocking (whether it blocks; null where unknown), bytes, throughput_gbps (means
    over the group), copies, total_ns, exposed_ns, start_ns (null for a group).
    """
    drawn = copies.filter((pl.col("bytes") > 0) & pl.col("throughput_gbps").is_not_null()).select(
        pl.col("kind").cast(pl.String),
        (pl.col("blocking").list.len() > 0).alias("blocking"),
        pl.col("bytes").cast(pl.Float64),
        "throughput_gbps",
        pl.lit(1, pl.Int64).alias("copies"),
        pl.col("duration_ns").alias("total_ns"),
        "exposed_ns",
        "start_ns",
    )
    if drawn.height <= max_points:
        return drawn
    kept = drawn.head(max_points // 2)
    grouped = (
        drawn.slice(max_points // 2)
        .group_by(
            "kind",
            "blocking",
            pl.col("bytes").log(2).floor().alias("size"),
            (pl.col("throughput_gbps").log10() * BINS_PER_DECADE).floor().alias("speed"),
        )
        .agg(
            pl.col("bytes").mean(),
            pl.col("throughput_gbps").mean(),
            pl.col("copies", "total_ns", "exposed_ns").sum(),
            pl.lit(None, pl.Int64).alias("start_ns"),
        )
        .sort("kind", "blocking", "size", "speed")
        .select(drawn.columns)
    )
    return pl.concat([kept, grouped])
