"""The HTML report: one file that opens anywhere and asks the network for nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof import __version__
from nsys_deepprof.analyses.report_data import DRAWN_LANES, Section, Skipped
from nsys_deepprof.definitions import DEFINITIONS
from nsys_deepprof.names import MAX_NAME, visible
from nsys_deepprof.reports import charts, iteration_charts, timeline_chart
from nsys_deepprof.reports.page import render_page
from nsys_deepprof.reports.palette import with_css_variables
from nsys_deepprof.reports.verdict import verdict
from nsys_deepprof.units import format_bytes, format_count, format_ns, format_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.analyses.report_data import Anatomy, ReportData
    from nsys_deepprof.reports.charts import Drawing

SCRIPTS = ("vega.js", "charts.js", "timeline.js", "tables.js")

LISTED_POSITIONS = 60

JAVASCRIPT_SAFE = 2**53

# The page has its legends in HTML: there they wrap, and are read aloud.
_CONFIG = charts.CONFIG | {"legend": {"disable": True}}

_GLYPHS = {"triangle-up": "▲", "triangle-down": "▼", "circle": "●", "diamond": "◆", "square": "■"}


def render(data: ReportData) -> str:
    """The report as the text of one HTML file."""
    timeline = timeline_chart.packed(data.timeline, data.origin_ns)
    drawings = _drawings(data, timeline)
    # The specifications are checked by tests: checking each again takes longer than making it.
    plain = {name: chart.to_dict(validate=False) for name, chart in drawings.items()}
    specs = {name: with_css_variables(spec) for name, spec in plain.items()}
    for spec in specs.values():
        spec.pop("config", None)
    context = {
        "data": data,
        "version": __version__,
        "name": PurePath(data.source).name,
        "gpu_names": Counter(data.info.frame["name"].to_list()),
        "states": [(state, charts.STATE_LABELS[state]) for state in timeline_chart.STATES],
        "top_positions": _top_positions,
        "iteration_lanes": _drawn_lanes(data),
        "communicating": [gpu for gpu, _ in _communicating(data)],
        "depth_lanes": []
        if isinstance(data.launches, Skipped)
        else data.launches.frames["depths"]["lane"].unique(maintain_order=True).to_list(),
        "verdict": verdict(data.findings),
        "evidence_words": _evidence_words,
        "definitions": DEFINITIONS,
        "causes": charts.CAUSE_LABELS,
        "copy_key": _copy_key(data),
        "is_skipped": lambda part: isinstance(part, Skipped),
        "ms": lambda time_ns: None if time_ns is None else (time_ns - data.origin_ns) / 1e6,
        "drawings": set(drawings),
        "specs": {"config": with_css_variables(_CONFIG), "specs": specs},
        "timeline": timeline | {"marks": _timeline_marks(data)},
        "tables": {name: _table(frame) for name, frame in _downloads(data).items()},
    }
    return render_page("report.html.j2", context, scripts=SCRIPTS)


def _drawings(data: ReportData, timeline: dict[str, Any]) -> dict[str, Drawing]:
    drawings: dict[str, Drawing] = {}
    if timeline:
        span = timeline["gpus"], timeline["from_ms"], timeline["to_ms"]
        drawings["timeline-overview"] = timeline_chart.timeline_overview(*span)
        drawings["timeline-detail"] = timeline_chart.timeline_detail(*span)
    if isinstance(data.iterations, Section):
        columns = data.iterations.frames["columns"]
        for number, lane in enumerate(_drawn_lanes(data)):
            mine = columns.filter(pl.col("lane") == lane)
            drawings[f"iterations-{number}"] = iteration_charts.iteration_times(mine)
    for number, one in enumerate(data.anatomies):
        drawings[f"anatomy-{number}"] = iteration_charts.anatomy(one)
    for number, (_, mine) in enumerate(_communicating(data)):
        drawings[f"communication-{number}"] = iteration_charts.communication_times(mine)
    if isinstance(data.launches, Section):
        depths = data.launches.frames["depths"]
        for number, (_, mine) in enumerate(depths.group_by("lane", maintain_order=True)):
            drawings[f"depth-{number}"] = charts.queue_depth(mine, data.origin_ns)
    if isinstance(data.gaps, Section) and data.gaps.frames["histogram"].height:
        histogram = data.gaps.frames["histogram"]
        drawings["gap-time"] = charts.gap_histogram(histogram, weight="total_ns")
        drawings["gap-count"] = charts.gap_histogram(histogram, weight="gaps")
    if isinstance(data.copies, Section) and data.copies.frames["points"].height:
        kinds = data.copies.result.extra["kinds"]
        drawings["copy-sizes"] = charts.copies(data.copies.frames["points"], kinds)
    return drawings


def _communicating(data: ReportData) -> list[tuple[int, pl.DataFrame]]:
    """The GPUs whose communication is known by iteration, with its columns."""
    if isinstance(data.communication, Skipped):
        return []
    columns = data.communication.frames["columns"]
    gpus = columns["gpu"].unique(maintain_order=True).head(DRAWN_LANES).to_list()
    return [(gpu, columns.filter(pl.col("gpu") == gpu)) for gpu in gpus]


def _drawn_lanes(data: ReportData) -> list[str]:
    if isinstance(data.iterations, Skipped):
        return []
    columns = data.iterations.frames["columns"]
    return columns["lane"].unique(maintain_order=True).head(DRAWN_LANES).to_list()


def _copy_key(data: ReportData) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Of the drawn copies: colours with what they say of the host, and shapes with kinds."""
    if isinstance(data.copies, Skipped):
        return [], []
    points = data.copies.frames["points"]
    hosts = {charts.host_of(blocking) for blocking in points["blocking"].unique()}
    kinds = sorted(set(points["kind"].cast(pl.String)))
    return (
        [(role, host) for host, role in charts.COPY_ROLES.items() if host in hosts],
        [(_GLYPHS[charts.shape_of(kind)], kind) for kind in kinds],
    )


def _top_positions(one: Anatomy) -> pl.DataFrame:
    return one.positions.sort("share", descending=True, nulls_last=True).head(LISTED_POSITIONS)


def _evidence_words(evidence: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of a finding that it has, as label and text."""
    words: list[tuple[str, str | None]] = [
        ("idle", _told(evidence["idle_ns"], format_ns)),
        ("exposed copy", _told(evidence["copy_ns"], format_ns)),
        ("communication", _told(evidence["comm_ns"], format_ns)),
        ("median", _told(evidence["median_ns"], format_ns)),
        ("longest", _told(evidence["max_ns"], format_ns)),
        ("moved", _told(evidence["bytes"], format_bytes)),
        ("at", _told(evidence["throughput_gbps"], format_rate)),
        ("host blocked for", _told(evidence["host_blocked_ns"], format_ns)),
        *_pace(evidence),
        ("call", evidence["api"]),
    ]
    if evidence["iterations"]:
        counts = format_count(evidence["iterations"]), format_count(evidence["iterations_of"])
        words.append(("in", f"{counts[0]} of {counts[1]} iterations"))
    if evidence["gpus"]:
        words.append(("on GPU", ", ".join(map(str, evidence["gpus"]))))
    return [(label, text) for label, text in words if text is not None]


def _pace(evidence: dict[str, Any]) -> list[tuple[str, str | None]]:
    kernel_ns, interval_ns = evidence["kernel_median_ns"], evidence["launch_interval_ns"]
    # Launches that come faster than kernels run speak against the finding only by their median.
    if kernel_ns is None or interval_ns is None or kernel_ns >= interval_ns:
        return []
    return [
        ("median kernel", format_ns(kernel_ns)),
        ("a launch every", format_ns(interval_ns)),
    ]


def _told(value: float | None, text: Callable[[float | None], str]) -> str | None:
    # A part that is none of the cost is left out; one that is not known is, too.
    return text(value) if value else None


def _timeline_marks(data: ReportData) -> dict[str, list[list[Any]]]:
    """What the timeline draws exactly, whatever the zoom: per lane, rows of gpu, from and to in
    ms, colour, opacity, text."""

    def mark(row: dict[str, Any], paint: str, text: str, opacity: float = 1) -> list[Any]:
        start, end = row["start_ns"] - data.origin_ns, row["end_ns"] - data.origin_ns
        return [row["gpu"], start / 1e6, end / 1e6, paint, opacity, text]

    marks: dict[str, list[list[Any]]] = {}
    if isinstance(data.iterations, Section):
        marks["iterations"] = [
            mark(
                row,
                "mark-slow" if row["outlier"] else "muted",
                f"iteration {row['index']}: {format_ns(row['duration_ns'])}"
                + (f"\nslow: {visible(row['explanation'], 200)}" if row["explanation"] else ""),
                # Neighbours are told apart by their shade.
                opacity=0.85 if row["index"] % 2 else 0.5,
            )
            for row in data.iterations.result.frame.iter_rows(named=True)
        ]
    if isinstance(data.gaps, Section):
        marks["gaps"] = [
            mark(
                row,
                f"cause-{row['cause']}",
                f"gap of {format_ns(row['duration_ns'])}: {charts.CAUSE_LABELS[row['cause']]}\n"
                f"after {visible(row['prev_op'] or '?', 90)}\n"
                f"before {visible(row['next_op'] or '?', 90)}",
            )
            for row in data.gaps.result.frame.iter_rows(named=True)
        ]
    if isinstance(data.copies, Section):
        marks["copies"] = [
            mark(
                row,
                "mark-blocking" if row["blocking"] else "state-copy",
                f"{row['kind']} of {format_bytes(row['bytes'])} in "
                f"{format_ns(row['duration_ns'])}, {format_ns(row['exposed_ns'])} exposed"
                + (f"\nblocks the host: {', '.join(row['blocking'])}" if row["blocking"] else ""),
            )
            for row in data.copies.result.frame.iter_rows(named=True)
        ]
    return marks


def _downloads(data: ReportData) -> dict[str, pl.DataFrame]:
    parts: dict[str, Section | Skipped] = {
        "iterations": data.iterations,
        "patterns": data.repeats,
        "gaps": data.gaps,
        "memcpy": data.copies,
        "kernels": data.kernels,
        "launches": data.launches,
        "communication": data.communication,
    }
    found = {name: part.result.frame for name, part in parts.items() if isinstance(part, Section)}
    return {"gpus": data.info.frame, "findings": data.findings.frame, **found}


def _table(frame: pl.DataFrame) -> dict[str, Any]:
    """A frame for the page's scripts: integers that JavaScript would round are kept as text."""
    integers = [name for name, dtype in frame.schema.items() if dtype.is_integer()]
    big = [name for name in integers if (frame[name].cast(pl.Int64).abs() > JAVASCRIPT_SAFE).any()]
    plain = frame.with_columns(
        pl.col(big).cast(pl.String), pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    )
    return {
        "columns": frame.columns,
        "integers": integers,
        "rows": [[_kept(value) for value in row] for row in plain.rows()],
    }


def _kept(value: Any) -> Any:
    """A cell for the page: long names lose their middle, so that the page's size is bounded."""
    if isinstance(value, str) and len(value) > MAX_NAME:
        return f"{value[: 3 * MAX_NAME // 4]}…{value[-MAX_NAME // 4 :]}"
    if isinstance(value, list):
        return [_kept(item) for item in value]
    if isinstance(value, dict):
        return {key: _kept(item) for key, item in value.items()}
    return value
