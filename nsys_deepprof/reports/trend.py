"""The page of an archive: what its runs do, over time and side by side."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof import __version__
from nsys_deepprof.names import shorten
from nsys_deepprof.reports import charts, trend_charts
from nsys_deepprof.reports.page import render_page
from nsys_deepprof.reports.palette import with_css_variables
from nsys_deepprof.reports.trend_charts import SERIES_ROLES, series_label, signed

if TYPE_CHECKING:
    from nsys_deepprof.batch.page import ArchivePage
    from nsys_deepprof.batch.trend import Change, Series, Work
    from nsys_deepprof.reports.charts import Drawing

SCRIPTS = ("vega.js", "charts.js", "tables.js")

DRAWN_WORKS = 12
"""Works with charts; the others are listed."""

DRAWN_SPLITS = 3
"""Series of a work whose states and idle causes are drawn."""

LISTED_RUNS = 2_000
LISTED_FAILURES = 50
LISTED_DIFFERENCES = 6
LISTED_KERNELS = 40
LATEST_CHANGES = 8
TITLE_NAME = 60

TELLING_SHARE = 0.05
"""A difference smaller than this share of the whole change does not explain it."""

WHAT_WORDS = {
    "kernel": "kernel",
    "gap": "idle before",
    "added": "new kernel",
    "gone": "kernel gone",
}


def render(page: ArchivePage) -> str:
    """The page as the text of one HTML file; its links lead to the reports beside it."""
    shown = [work for work in page.works if _is_comparable(work)][:DRAWN_WORKS]
    drawings: dict[str, Drawing] = {}
    for number, work in enumerate(shown):
        drawn = _by_runs(work)[: len(SERIES_ROLES)]
        drawings[f"work{number}-time"] = trend_charts.iteration_times(drawn)
        for place, series in enumerate(_split_series(work)):
            drawings[f"work{number}-states{place}"] = trend_charts.state_shares(series)
            if series.points["idle_share"].max():
                drawings[f"work{number}-idle{place}"] = trend_charts.idle_shares(series)
    plain = {name: chart.to_dict(validate=False) for name, chart in drawings.items()}
    specs = {name: with_css_variables(spec) for name, spec in plain.items()}
    for spec in specs.values():
        spec.pop("config", None)
    failed = page.runs.filter(pl.col("status") == "failed")
    context: dict[str, Any] = {
        "page": page,
        "version": __version__,
        "counts": {s: _count(page.runs, s) for s in ("ok", "empty", "failed")},
        "span": _span(page.runs),
        "gpu_names": _gpu_names(page.runs),
        "failed": failed.head(LISTED_FAILURES),
        "failed_total": failed.height,
        "works": shown,
        "other_works": [work for work in page.works if work not in shown],
        "splits": _split_series,
        "runs": page.runs.head(LISTED_RUNS),
        "states": list(charts.STATE_LABELS.items()),
        "causes": charts.CAUSE_LABELS,
        "label": series_label,
        "signed": signed,
        "title": work_title,
        "changes": _changes,
        "latest": _latest(shown),
        "compared": _compared,
        "differences": _differences,
        "kernel_pairs": _kernel_pairs,
        "what_words": WHAT_WORDS,
        "utc": _utc,
        "drawings": set(drawings),
        "specs": {"config": with_css_variables(charts.CONFIG), "specs": specs},
    }
    return render_page("trend.html.j2", context, scripts=SCRIPTS, style="trend.css")


def work_title(work: Work) -> str:
    """What a work is, in words, with its kernel between backticks."""
    if work.name is not None:
        return work.name
    kernel = shorten(work.top_kernel or "?", TITLE_NAME)
    if work.kernels == 1:
        return f"Loop of one kernel, `{kernel}`"
    return f"Loop of {work.kernels:,} kernels, most of its time in `{kernel}`"


def _is_comparable(work: Work) -> bool:
    return len(work.series) > 1 or work.series[0].points.height > 1


def _by_runs(work: Work) -> list[Series]:
    return sorted(work.series, key=lambda series: -series.points.height)


def _split_series(work: Work) -> list[Series]:
    return _by_runs(work)[:DRAWN_SPLITS]


def _changes(work: Work) -> list[tuple[Series, Change]]:
    """All changes of a work, the latest first."""
    found = [(series, change) for series in work.series for change in series.changes]
    return sorted(found, key=lambda pair: _when(*pair), reverse=True)


def _latest(works: list[Work]) -> list[tuple[int, Series, Change]]:
    """The latest changes of the works that are shown, each with its work's number."""
    found = [
        (number, series, change)
        for number, work in enumerate(works)
        for series, change in _changes(work)
    ]
    found.sort(key=lambda one: _when(*one[1:]), reverse=True)
    return found[:LATEST_CHANGES]


def _when(series: Series, change: Change) -> int:
    time_ns = series.points["capture_start_utc_ns"][change.point.index]
    return change.point.index if time_ns is None else int(time_ns)


def _compared(work: Work) -> list[dict[str, Any]]:
    """A row per series: medians over its runs since its last change, and of the fastest's."""
    rows = []
    for series in work.series:
        points = series.current
        medians = points.select(
            pl.col("iteration_median_ns", *_ITERATION_STATES, "copy_share", "idle_share").median(),
            *(pl.col(f"idle_{cause}_share").median() for cause in charts.CAUSE_LABELS),
        ).row(0, named=True)
        rows.append(
            medians
            | {
                "series": series,
                "runs": series.points.height,
                "current": points.height,
                "low_ns": points["iteration_median_ns"].min(),
                "high_ns": points["iteration_median_ns"].max(),
                "causes": _top_causes(medians),
            }
        )
    fastest = rows[0]["iteration_median_ns"]
    return [row | {"ratio": row["iteration_median_ns"] / fastest} for row in rows]


_ITERATION_STATES = tuple(f"iteration_{state}_ns" for state in charts.STATE_LABELS)


def _top_causes(medians: dict[str, Any]) -> list[tuple[str, float]]:
    shares = [(cause, medians[f"idle_{cause}_share"] or 0.0) for cause in charts.CAUSE_LABELS]
    return sorted((pair for pair in shares if pair[1] > 0), key=lambda pair: -pair[1])[:3]


def _differences(change: Change) -> list[dict[str, Any]]:
    """The differences that a change consists of, the largest first."""
    frame = change.differences
    if frame is None:
        return []
    whole_ns = abs(change.point.after - change.point.before)
    telling = frame.filter(pl.col("delta_ns").abs() >= TELLING_SHARE * whole_ns)
    return telling.head(LISTED_DIFFERENCES).to_dicts()


def _kernel_pairs(frame: pl.DataFrame | None) -> list[dict[str, Any]]:
    if frame is None:
        return []
    return frame.filter(pl.col("what") != "gap").head(LISTED_KERNELS).to_dicts()


def _count(runs: pl.DataFrame, status: str) -> int:
    return runs.filter(pl.col("status") == status).height


def _span(runs: pl.DataFrame) -> tuple[str, str] | None:
    times = runs["capture_start_utc_ns"].drop_nulls()
    if times.len() == 0:
        return None
    return _utc(times.min()), _utc(times.max())


def _utc(time_ns: Any) -> str:
    if time_ns is None:
        return "—"
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def _gpu_names(runs: pl.DataFrame) -> list[str]:
    names = runs["gpu_names"].drop_nulls().str.split(", ").explode()
    return names.unique(maintain_order=True).to_list()
