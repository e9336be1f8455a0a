"""Charts of an archive: iteration time over runs, and where the runs' time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from nsys_deepprof.reports.charts import CAUSE_LABELS, STATE_LABELS
from nsys_deepprof.reports.palette import colour
from nsys_deepprof.units import format_ns, format_share

if TYPE_CHECKING:
    from nsys_deepprof.batch.trend import Series
    from nsys_deepprof.reports.charts import Drawing

SERIES_ROLES = (
    *("state-compute", "mark-blocking", "cause-device_wait", "cause-alloc"),
    *("cause-os", "cause-api", "state-copy", "state-comm"),
)
"""Colours of series, in their order; more series than these are not drawn."""

DRAWN_RUNS = 400
"""The latest runs of a series that are drawn; the catalogue has all."""


def series_label(series: Series) -> str:
    """What tells a series from the others of its work."""
    return " ".join((series.gpu_name or "GPU without a name", series.setting)).strip()


def iteration_times(drawn: list[Series]) -> Drawing:
    """Median iteration of every run, by time or by order, with levels and their changes.

    A point opens its run's report.
    """
    timed = all(one.points["capture_start_utc_ns"].null_count() == 0 for one in drawn)
    labels = [series_label(one) for one in drawn]
    points = pl.concat([_times(one, label) for one, label in zip(drawn, labels, strict=True)])
    levels = pl.concat([_levels(one, label) for one, label in zip(drawn, labels, strict=True)])
    place = "time" if timed else "order"
    kind = "T" if timed else "Q"
    across = alt.X(
        f"{place}:{kind}",
        title="start of the capture, UTC" if timed else "run, in the order of the input",
        scale=alt.Scale(type="utc", padding=16) if timed else alt.Scale(zero=False, padding=16),
        axis=alt.Axis(grid=False),
    )
    paint = alt.Color(
        "series:N",
        scale=alt.Scale(domain=labels, range=[colour(role) for role in SERIES_ROLES[: len(drawn)]]),
        legend=alt.Legend(orient="top", title=None, labelLimit=400, columns=2)
        if len(drawn) > 1
        else None,
    )
    height = alt.Y("ms:Q", title="median iteration, ms", scale=alt.Scale(zero=False, padding=12))
    chart = alt.Chart(points)
    spread = chart.mark_rule(opacity=0.35).encode(x=across, y=height, y2="p95_ms:Q", color=paint)
    marks = chart.mark_point(filled=True, size=48, opacity=0.9).encode(
        x=across,
        y=height,
        color=paint,
        href="report:N",
        tooltip=[
            alt.Tooltip("run:N"),
            alt.Tooltip("series:N", title="on"),
            alt.Tooltip("captured:N"),
            alt.Tooltip("median:N", title="median iteration"),
            alt.Tooltip("p95:N", title="95th percentile"),
            alt.Tooltip("iterations:Q", format=","),
            alt.Tooltip("pattern:N"),
        ],
    )
    layers: list[Any] = [spread, marks]
    if levels.height:
        steps = alt.Chart(levels)
        layers.insert(
            0,
            steps.mark_rule(strokeWidth=2, opacity=0.8).encode(
                x=f"{place}:{kind}", x2=f"{place}_to:{kind}", y="ms:Q", color=paint
            ),
        )
        for line, (label, role) in enumerate(zip(labels, SERIES_ROLES, strict=False)):
            mine = levels.filter((pl.col("series") == label) & pl.col("change").is_not_null())
            if mine.height == 0:
                continue
            changed = alt.Chart(mine).encode(x=f"{place}:{kind}")
            layers += [
                changed.mark_rule(strokeDash=[4, 3], color=colour(role)).encode(
                    tooltip=[alt.Tooltip("series:N", title="on"), alt.Tooltip("change:N")]
                ),
                # Changes on one day: each series has a line of its own.
                changed.mark_text(
                    align="left", baseline="top", dx=4, fontSize=11, color=colour(role)
                ).encode(y=alt.value(13 * line), text="short:N"),
            ]
    return alt.layer(*layers).properties(width="container", height=260)


def state_shares(series: Series) -> Drawing:
    """Each run's time by GPU state, as shares of the window."""
    parts = [(label, f"{state}_share", f"state-{state}") for state, label in STATE_LABELS.items()]
    return _stacked(series, parts, "share of the GPUs' time")


def idle_shares(series: Series) -> Drawing:
    """Each run's idle time by cause, as shares of the window."""
    parts = [
        (label, f"idle_{cause}_share", f"cause-{cause}") for cause, label in CAUSE_LABELS.items()
    ]
    return _stacked(series, parts, "idle, share of the GPUs' time")


def _times(series: Series, label: str) -> pl.DataFrame:
    points = _drawn(series)
    return points.select(
        pl.lit(label).alias("series"),
        pl.col("path").str.split("/").list.last().alias("run"),
        (pl.col("capture_start_utc_ns") / 1e6).alias("time"),
        "order",
        pl.from_epoch(pl.col("capture_start_utc_ns"), time_unit="ns")
        .dt.strftime("%Y-%m-%d %H:%M")
        .alias("captured"),
        (pl.col("iteration_median_ns") / 1e6).alias("ms"),
        (pl.col("iteration_p95_ns").cast(pl.Float64) / 1e6).alias("p95_ms"),
        pl.Series("median", [format_ns(v) for v in points["iteration_median_ns"]], pl.String),
        pl.Series("p95", [format_ns(v) for v in points["iteration_p95_ns"]], pl.String),
        pl.col("iterations").cast(pl.Float64),
        "pattern",
        "report",
    )


def _levels(series: Series, label: str) -> pl.DataFrame:
    """The stretches of a series between its changes; none where it has no change."""
    schema = {
        "series": pl.String,
        "time": pl.Float64,
        "time_to": pl.Float64,
        "order": pl.UInt32,
        "order_to": pl.UInt32,
        "ms": pl.Float64,
        "change": pl.String,
        "short": pl.String,
    }
    if not series.changes:
        return pl.DataFrame(schema=schema)
    points = series.points.with_row_index("order")
    bounds = [0, *(c.point.index for c in series.changes), points.height]
    levels = [series.changes[0].point.before, *(c.point.after for c in series.changes)]
    rows = []
    for k, level in enumerate(levels):
        first, last = points.row(bounds[k], named=True), points.row(bounds[k + 1] - 1, named=True)
        change = None
        if k:
            share = signed(level / levels[k - 1] - 1)
            change = f"{format_ns(levels[k - 1])} to {format_ns(level)}, {share}"
        rows.append(
            {
                "series": label,
                "time": _ms(first["capture_start_utc_ns"]),
                "time_to": _ms(last["capture_start_utc_ns"]),
                "order": first["order"],
                "order_to": last["order"],
                "ms": level / 1e6,
                "change": change,
                "short": share if k else None,
            }
        )
    return pl.DataFrame(rows, schema=schema)


def signed(share: float) -> str:
    """A change as a percentage with its sign: `+5.1 %`."""
    return f"{'+' if share >= 0 else '−'}{format_share(abs(share))}"


def _stacked(series: Series, parts: list[tuple[str, str, str]], title: str) -> Drawing:
    points = _drawn(series)
    parts = [part for part in parts if points[part[1]].fill_null(0).max()]
    run = pl.col("path").str.split("/").list.last().alias("run")
    rows = pl.concat(
        [
            points.select(
                "order",
                run,
                "report",
                pl.lit(label).alias("part"),
                pl.col(column).fill_null(0).alias("share"),
                pl.Series("percent", [format_share(v) for v in points[column]], pl.String),
            )
            for label, column, _ in parts
        ]
    ).with_columns(pl.col("share").cum_sum().over("order").alias("high"))
    rows = rows.select(
        pl.col("order").cast(pl.Float64).alias("from"),
        (pl.col("order") + 1).cast(pl.Float64).alias("to"),
        (pl.col("high") - pl.col("share")).alias("low"),
        "high",
        "part",
        "run",
        "percent",
        "report",
    ).filter(pl.col("high") > pl.col("low"))
    chart: alt.Chart = (
        alt.Chart(rows)
        .mark_rect(stroke=colour("panel"), strokeWidth=0.5 if points.height <= 100 else 0)
        .encode(
            x=alt.X(
                "from:Q",
                title="runs, oldest first",
                scale=alt.Scale(nice=False),
                axis=alt.Axis(grid=False, labels=False, ticks=False),
            ),
            x2="to:Q",
            y=alt.Y("low:Q", title=title, axis=alt.Axis(format="%"), scale=alt.Scale(nice=False)),
            y2="high:Q",
            color=alt.Color(
                "part:N",
                scale=alt.Scale(
                    domain=[label for label, _, _ in parts],
                    range=[colour(role) for _, _, role in parts],
                ),
                legend=alt.Legend(orient="top", title=None, columns=4),
            ),
            href="report:N",
            tooltip=[alt.Tooltip("run:N"), alt.Tooltip("part:N"), alt.Tooltip("percent:N")],
        )
        .properties(width="container", height=190)
    )
    return chart


def _drawn(series: Series) -> pl.DataFrame:
    return series.points.with_row_index("order").tail(DRAWN_RUNS)


def _ms(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / 1e6
