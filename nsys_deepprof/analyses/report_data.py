"""Everything that a report shows, aggregated to a size that fits a page whatever the trace's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from nsys_deepprof.analyses.anatomy import iteration_bars, iteration_gaps, median_iteration
from nsys_deepprof.analyses.communication import communication
from nsys_deepprof.analyses.depth_bins import depth_bins
from nsys_deepprof.analyses.findings import findings
from nsys_deepprof.analyses.gaps import all_gaps, gaps, gaps_alone
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS
from nsys_deepprof.analyses.info import info
from nsys_deepprof.analyses.iterations import iterations
from nsys_deepprof.analyses.kernels import kernels
from nsys_deepprof.analyses.launches import launches
from nsys_deepprof.analyses.memcpy import memcpy
from nsys_deepprof.analyses.mined import mined
from nsys_deepprof.analyses.nest_blocks import Block, nest_blocks, structure
from nsys_deepprof.analyses.patterns import patterns
from nsys_deepprof.analyses.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace

LISTED_GAPS = 100
LISTED_PLACES = 30
LISTED_COPIES = 100
LISTED_KERNELS = 400
LISTED_ITERATIONS = 500
LISTED_LANES = 60
LISTED_REPEATS = 40
DRAWN_LANES = 8
DRAWN_ANATOMIES = 4
DRAWN_QUEUES = 4
DRAWN_ITERATIONS = 240
"""Columns of a chart: above so many iterations of a lane, each stands for several."""

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
    """The parts of a report. Times inside are the trace's own; `origin_ns` is shown as 0.

    `windows` is what the analysis was narrowed to, as in `Trace`; None is the whole trace.
    """

    source: str
    origin_ns: int
    windows: pl.DataFrame | None
    info: Result
    findings: Result
    timeline: pl.DataFrame
    iterations: Section | Skipped
    nests: tuple[LaneNest, ...]
    repeats: Section | Skipped
    anatomies: tuple[Anatomy, ...]
    gaps: Section | Skipped
    copies: Section | Skipped
    kernels: Section | Skipped
    launches: Section | Skipped
    communication: Section | Skipped


@dataclass(frozen=True)
class LaneNest:
    """The loop nest that some lanes share; `events` operations and the times in `blocks` are those
    of the first. No blocks where it is too long to fold."""

    lanes: tuple[str, ...]
    events: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Anatomy:
    """The median iteration of one lane. `bars` and `gaps`: see `analyses.anatomy`; `positions` are
    the lane's rows of `anatomy` of `iterations`."""

    lane: str
    pattern: str
    index: int
    start_ns: int
    end_ns: int
    bars: pl.DataFrame
    gaps: pl.DataFrame
    positions: pl.DataFrame


def report_data(trace: Trace) -> ReportData:
    """Run every analysis that the report shows, each once."""
    facts = info(trace)
    idle = facts.extra["status"] == "no_gpu_activity"

    def look(part: Callable[[Trace], Section | Skipped]) -> Section | Skipped:
        if idle:
            return Skipped("no_data", "This capture holds no GPU activity.")
        return part(trace)

    # Compiled code nearly throughout: what needs no iterations runs beside the search for them.
    with ThreadPoolExecutor(1) as beside:
        mining = beside.submit(mined, trace)
        kernel_part, launch_part = look(_kernels), look(_launches)
        gaps_alone(trace)
        mining.result()
    found = look(_iterations)
    return ReportData(
        source=trace.source,
        origin_ns=trace.span_ns()[0],
        windows=trace.windows,
        info=facts,
        findings=findings(trace),
        timeline=timeline(trace),
        iterations=found,
        nests=() if isinstance(found, Skipped) else _nests(trace, found.result),
        repeats=look(_repeats),
        anatomies=() if isinstance(found, Skipped) else _anatomies(trace),
        gaps=look(_gaps),
        copies=look(_copies),
        kernels=kernel_part,
        launches=launch_part,
        communication=look(_communication),
    )


def _iterations(trace: Trace) -> Section:
    found = iterations(trace)
    return Section(
        replace(found, frame=_listed_iterations(found.frame)),
        found.frame.height,
        {"columns": iteration_columns(found.frame)},
    )


def _nests(trace: Trace, found: Result) -> tuple[LaneNest, ...]:
    """The nests of the lanes that stand for their GPU; of the busiest lanes where none does."""
    every = mined(trace)
    main = found.frame["lane"].unique().to_list()
    chosen = [m for m in every if m.lane.label in main] if main else every[:DRAWN_LANES]
    anatomy = found.extra["anatomy"]
    nests: dict[tuple[object, ...], LaneNest] = {}
    for one in sorted(chosen, key=lambda m: m.lane.gpu) if main else chosen:
        blocks = nest_blocks(one, anatomy.filter(pl.col("lane") == one.lane.label))
        alike = nests.setdefault(structure(blocks), LaneNest((), len(one.lane.sequence), blocks))
        nests[structure(blocks)] = replace(alike, lanes=(*alike.lanes, one.lane.label))
    return tuple(nests.values())[:DRAWN_LANES]


def _anatomies(trace: Trace) -> tuple[Anatomy, ...]:
    """Of the lanes that stand for their GPU, the first few by GPU."""
    found = iterations(trace)
    lanes = found.frame["lane"].unique(maintain_order=True).head(DRAWN_ANATOMIES)
    return tuple(_anatomy(trace, found, lane) for lane in lanes)


def _anatomy(trace: Trace, found: Result, lane: str) -> Anatomy:
    rows = found.frame.filter(pl.col("lane") == lane)
    row = median_iteration(rows)
    place = {key: row[key] for key in ("gpu", "start_ns", "end_ns")}
    return Anatomy(
        lane=lane,
        pattern=rows["pattern"][0],
        index=row["index"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bars=iteration_bars(trace, **place),
        gaps=iteration_gaps(trace, **place),
        positions=found.extra["anatomy"].filter(pl.col("lane") == lane),
    )


def _launches(trace: Trace) -> Section | Skipped:
    if not trace.has("api_calls"):
        return Skipped("unknown", "No CUDA API calls were traced: launches and queues are unknown.")
    found = launches(trace)
    busiest = found.frame.filter(pl.col("launched") > 0)["lane"].head(DRAWN_QUEUES).to_list()
    return _section(found, LISTED_LANES, {"depths": depth_bins(trace, busiest)})


def _communication(trace: Trace) -> Section:
    found = communication(trace)
    return _section(
        found, LISTED_LANES, {"columns": communication_columns(found.extra["iterations"])}
    )


def _repeats(trace: Trace) -> Section:
    found = patterns(trace)
    ranked = found.frame.sort("coverage_ns", descending=True, maintain_order=True)
    return _section(replace(found, frame=ranked), LISTED_REPEATS, {})


def _gaps(trace: Trace) -> Section:
    every = all_gaps(trace)
    frames = {"histogram": gap_histogram(every), "places": gap_places(every)}
    return _section(gaps(trace), LISTED_GAPS, frames)


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
    bins = pl.Series("bin", np.searchsorted(edges, lengths, side="right") - 1, dtype=pl.UInt16)
    bound = pl.Series(edges, dtype=pl.Int64)
    return (
        every.select("cause", bins, "duration_ns")
        .group_by("cause", "bin")
        .agg(pl.len().cast(pl.Int64).alias("gaps"), pl.col("duration_ns").sum().alias("total_ns"))
        .sort("cause", "bin")
        .select(
            "cause",
            pl.lit(bound).gather("bin").alias("from_ns"),
            pl.lit(bound).gather(pl.col("bin") + 1).alias("to_ns"),
            "gaps",
            "total_ns",
        )
    )


def gap_places(every: pl.DataFrame, *, max_places: int = LISTED_PLACES) -> pl.DataFrame:
    """Where most idle time is: gaps of one cause between the same two operations are one place.

    Columns: cause, prev_op, next_op, gaps, total_ns, median_ns, max_ns, gpus (on how many); the
    `max_places` with the most time, dearest first.
    """
    length = pl.col("duration_ns")
    return (
        every.group_by("cause", "prev_op", "next_op", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("gaps"),
            length.sum().alias("total_ns"),
            length.median().alias("median_ns"),
            length.max().alias("max_ns"),
            pl.col("gpu").n_unique().cast(pl.Int64).alias("gpus"),
        )
        .sort("total_ns", descending=True, maintain_order=True)
        .head(max_places)
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


def iteration_columns(rows: pl.DataFrame, *, max_columns: int = DRAWN_ITERATIONS) -> pl.DataFrame:
    """Iterations as columns of a chart, of at most `max_columns` per lane.

    Each stands for as many iterations in a row; the states are means over them and add up to
    `mean_ns`. Columns: lane, gpu, first_index, last_index, iterations, outliers, mean_ns, max_ns,
    compute_ns, comm_ns, copy_ns, memset_ns, idle_ns (floats), explanation (of the slowest outlier).
    """
    step = (pl.len().over("lane") + max_columns - 1) // max_columns
    slowest = pl.col("duration_ns").filter("outlier").arg_max()
    return (
        rows.with_columns((pl.int_range(pl.len()).over("lane") // step).alias("column"))
        .group_by("lane", "gpu", "column", maintain_order=True)
        .agg(
            pl.col("index").first().alias("first_index"),
            pl.col("index").last().alias("last_index"),
            pl.len().cast(pl.Int64).alias("iterations"),
            pl.col("outlier").sum().cast(pl.Int64).alias("outliers"),
            pl.col("duration_ns").mean().alias("mean_ns"),
            pl.col("duration_ns").max().alias("max_ns"),
            *(pl.col(state).mean() for state in STATE_COLUMNS),
            pl.col("explanation").filter("outlier").get(slowest, null_on_oob=True),
        )
        .drop("column")
    )


def communication_columns(
    rows: pl.DataFrame, *, max_columns: int = DRAWN_ITERATIONS
) -> pl.DataFrame:
    """Communication of iterations as columns of a chart, of at most `max_columns` per GPU.

    `rows`: `iterations` of `communication`. Columns: gpu, first_index, last_index, iterations,
    exposed_ns, overlapped_ns (floats, means over the iterations); none where there is none.
    """
    if not rows["comm_ns"].sum():
        rows = rows.clear()
    step = (pl.len().over("gpu") + max_columns - 1) // max_columns
    return (
        rows.with_columns((pl.int_range(pl.len()).over("gpu") // step).alias("column"))
        .group_by("gpu", "column", maintain_order=True)
        .agg(
            pl.col("iteration").first().alias("first_index"),
            pl.col("iteration").last().alias("last_index"),
            pl.len().cast(pl.Int64).alias("iterations"),
            pl.col("exposed_ns", "overlapped_ns").mean(),
        )
        .drop("column")
    )


def _listed_iterations(rows: pl.DataFrame) -> pl.DataFrame:
    """Every outlier, slowest first, up to the limit, and then the first of the others."""
    return rows.sort(
        pl.col("outlier").not_(),
        pl.when("outlier").then(-pl.col("duration_ns")),
        maintain_order=True,
    ).head(LISTED_ITERATIONS)
