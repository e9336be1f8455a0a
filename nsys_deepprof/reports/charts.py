"""Charts as Altair objects from aggregated frames. Times in charts are ms from the trace's start:
JavaScript holds no integer above 2^53, and nobody reads one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import altair as alt
import polars as pl

from nsys_deepprof.reports.palette import colour
from nsys_deepprof.units import format_bytes, format_ns, format_rate

if TYPE_CHECKING:
    from collections.abc import Callable

STATE_LABELS = {
    "compute": "compute",
    "comm": "communication",
    "copy": "exposed copy",
    "memset": "memset",
    "idle": "idle",
}
CAUSE_LABELS = {
    "launch": "launching",
    "device_wait": "device wait",
    "sync": "synchronise",
    "alloc": "allocation",
    "load": "module load",
    "api": "other CUDA call",
    "profiler": "profiler",
    "os": "OS call",
    "host": "host code",
    "unknown": "unknown",
}
COPY_ROLES = {
    "blocks the host": "mark-blocking",
    "does not": "state-copy",
    "call unknown": "muted",
}
"""Whether a copy blocks the host, with the colour of its point."""

KIND_SHAPES = {
    "HtoD": "triangle-up",
    "DtoH": "triangle-down",
    "DtoD": "circle",
    "PtoP": "diamond",
}

_TIME_LABEL = (
    "datum.value >= 1e9 ? datum.value / 1e9 + ' s' : datum.value >= 1e6 ? datum.value / 1e6 + "
    "' ms' : datum.value >= 1e3 ? datum.value / 1e3 + ' µs' : datum.value + ' ns'"
)
_BYTES_LABEL = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : datum.value >= 1048576 ? "
    "datum.value / 1048576 + ' MiB' : datum.value >= 1024 ? datum.value / 1024 + ' KiB' : "
    "datum.value + ' B'"
)
_TIME_TICKS = [10**k for k in range(13)]
_BYTE_TICKS = [4**k for k in range(21)]


Drawing: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif'

CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": _FONT,
    "padding": {"left": 4, "top": 4, "right": 12, "bottom": 4},
    "view": {"stroke": None},
    "axis": {
        "labelColor": colour("muted"),
        "titleColor": colour("muted"),
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "labelFontSize": 11,
        "domainColor": colour("line"),
        "tickColor": colour("line"),
        "gridColor": colour("line"),
        "labelFlush": False,
        "labelOverlap": True,
        "labelSeparation": 5,
    },
    "legend": {
        "labelColor": colour("ink"),
        "titleColor": colour("muted"),
        "titleFontWeight": "normal",
        "symbolStrokeWidth": 0,
        "labelFontSize": 11.5,
        "titleFontSize": 11.5,
    },
}
"""How every chart of a page looks."""


def painted(roles: dict[str, str]) -> alt.Scale:
    """The colours of named things, from each one's role in the palette."""
    return alt.Scale(domain=list(roles), range=[colour(role) for role in roles.values()])


def gap_histogram(histogram: pl.DataFrame, *, weight: str) -> Drawing:
    """Gaps by length on a log scale, stacked by cause. `weight` is 'total_ns' or 'gaps'."""
    field, title = (
        ("total_ms", "time in gaps, ms") if weight == "total_ns" else ("gaps", "number of gaps")
    )
    rows = histogram.select(
        pl.col("cause").cast(pl.String).replace_strict(CAUSE_LABELS).alias("cause"),
        pl.col("from_ns", "to_ns").cast(pl.Float64),
        (pl.col("total_ns") / 1e6).alias("total_ms"),
        "gaps",
        texts(histogram, "total", lambda r: format_ns(r["total_ns"])),
        texts(
            histogram, "length", lambda r: f"{format_ns(r['from_ns'])} to {format_ns(r['to_ns'])}"
        ),
    ).with_columns(pl.col(field).cum_sum().over("from_ns").alias("high"))
    rows = rows.with_columns((pl.col("high") - pl.col(field)).alias("low"))
    present = set(rows["cause"])
    chart: alt.Chart = (
        alt.Chart(rows)
        .mark_rect(stroke=colour("panel"), strokeWidth=0.5)
        .encode(
            x=alt.X(
                "from_ns:Q",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(values=_TIME_TICKS, labelExpr=_TIME_LABEL, grid=False),
                title="length of the gap",
            ),
            x2="to_ns:Q",
            y=alt.Y("low:Q", title=title),
            y2="high:Q",
            color=alt.Color(
                "cause:N",
                scale=painted(
                    {text: f"cause-{c}" for c, text in CAUSE_LABELS.items() if text in present}
                ),
                title=None,
            ),
            tooltip=[
                alt.Tooltip("cause:N"),
                alt.Tooltip("length:N", title="length"),
                alt.Tooltip("gaps:Q", format=","),
                alt.Tooltip("total:N", title="together"),
            ],
        )
        .properties(width="container", height=200)
    )
    return chart


def copies(points: pl.DataFrame, kinds: pl.DataFrame) -> Drawing:
    """Copies by size and throughput on log scales, blocking ones marked, with the link's best."""
    rows = points.select(
        "kind",
        texts(points, "host", lambda r: host_of(r["blocking"])),
        "bytes",
        "throughput_gbps",
        "copies",
        texts(points, "size", lambda r: format_bytes(r["bytes"])),
        texts(points, "rate", lambda r: format_rate(r["throughput_gbps"])),
        texts(points, "time", lambda r: format_ns(r["total_ns"])),
        texts(points, "exposed", lambda r: format_ns(r["exposed_ns"])),
    )
    hosts, shapes = set(rows["host"]), sorted(set(rows["kind"]))
    most = max(2, *rows["copies"])
    marks = (
        alt.Chart(rows)
        .mark_point(filled=True, opacity=0.75)
        .encode(
            x=alt.X(
                "bytes:Q",
                scale=alt.Scale(type="log", base=2, nice=False, padding=12),
                axis=alt.Axis(values=_BYTE_TICKS, labelExpr=_BYTES_LABEL),
                title="bytes copied",
            ),
            y=alt.Y(
                "throughput_gbps:Q",
                scale=alt.Scale(type="log", nice=False, padding=12),
                axis=alt.Axis(values=_rate_ticks(rows["throughput_gbps"]), format="~g"),
                title="throughput, GB/s",
            ),
            color=alt.Color(
                "host:N",
                scale=painted({host: COPY_ROLES[host] for host in COPY_ROLES if host in hosts}),
                title=None,
            ),
            shape=alt.Shape(
                "kind:N",
                scale=alt.Scale(domain=shapes, range=[shape_of(k) for k in shapes]),
                title=None,
            ),
            size=alt.Size(
                "copies:Q",
                scale=alt.Scale(domain=[1, most], range=[40, 400], type="sqrt"),
                legend=None,
            ),
            tooltip=[
                alt.Tooltip("kind:N"),
                alt.Tooltip("host:N"),
                alt.Tooltip("copies:Q", title="copies", format=","),
                alt.Tooltip("size:N", title="size (mean)"),
                alt.Tooltip("rate:N", title="rate (mean)"),
                alt.Tooltip("time:N", title="time"),
                alt.Tooltip("exposed:N", title="exposed"),
            ],
        )
    )
    ceilings = _ceilings(kinds)
    if ceilings.height == 0:
        alone: alt.Chart = marks.properties(width="container", height=320)
        return alone
    lines = alt.Chart(ceilings).mark_rule(strokeDash=[4, 3], color=colour("muted"))
    lines = lines.encode(y="gbps:Q", tooltip=alt.Tooltip("label:N", title="ceiling"))
    labels_of = alt.Chart(ceilings).mark_text(
        align="left", baseline="bottom", dx=4, dy=-2, fontSize=11, color=colour("muted")
    )
    labels_of = labels_of.encode(y="gbps:Q", x=alt.value(0), text="label:N")
    return alt.layer(lines, marks, labels_of).properties(width="container", height=320)


def host_of(blocking: bool | None) -> str:
    """Whether a copy blocks the host, in a key of `COPY_ROLES`."""
    blocks, free, unknown = COPY_ROLES
    return unknown if blocking is None else blocks if blocking else free


def shape_of(kind: str) -> str:
    """The shape of a copy's point, by the copy's kind."""
    return KIND_SHAPES.get(kind, "square")


def _rate_ticks(rates: pl.Series) -> list[float]:
    """Decades; their halves too where there are few."""
    fine = math.log10(max(rates) / min(rates)) < 2.5
    return [m * 10.0**k for k in range(-6, 5) for m in ((1, 2, 5) if fine else (1,))]


def _ceilings(kinds: pl.DataFrame) -> pl.DataFrame:
    """One line per distinct ceiling: the link's peak, and the best that each kind reached."""
    rows: list[dict[str, Any]] = []
    for column, words in (("peak_gbps", "peak of the link"), ("ceiling_gbps", "best of this run")):
        known = kinds.filter(pl.col(column).is_not_null())
        for (gbps,), mine in known.group_by(column, maintain_order=True):
            names = ", ".join(sorted(set(mine["kind"].cast(pl.String))))
            assert isinstance(gbps, float)
            rows.append({"gbps": gbps, "label": f"{names}: {words}, {format_rate(gbps)}"})
    return pl.DataFrame(rows, schema={"gbps": pl.Float64, "label": pl.String})


def texts(frame: pl.DataFrame, name: str, text: Callable[[dict[str, Any]], str]) -> pl.Series:
    return pl.Series(name, [text(row) for row in frame.iter_rows(named=True)], dtype=pl.String)


def scale_of(longest_ns: Any) -> tuple[float, str]:
    """The unit of an axis that reaches `longest_ns`, as ns and name."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if longest_ns >= size:
            return size, unit
    return 1.0, "ns"


def queue_depth(bins: pl.DataFrame, origin_ns: int) -> Drawing:
    """The queue of one stream over time: the largest depth of each bin, and the mean in front."""
    rows = bins.select(
        ((pl.col("start_ns") - origin_ns) / 1e6).alias("t"), "depth_mean", "depth_max"
    )
    x = alt.X("t:Q", title="ms from the start of the trace", scale=alt.Scale(nice=False))
    tooltip = [
        alt.Tooltip("t:Q", title="from ms", format=",.3f"),
        alt.Tooltip("depth_mean:Q", title="mean depth", format=",.1f"),
        alt.Tooltip("depth_max:Q", title="largest", format=","),
    ]
    axis = alt.Axis(tickMinStep=1, tickCount=4, minExtent=34)
    most = (
        alt.Chart(rows)
        .mark_area(interpolate="step-after", opacity=0.28, color=colour("accent"))
        .encode(
            x=x,
            y=alt.Y("depth_max:Q", title="waiting", axis=axis),
            tooltip=tooltip,
        )
    )
    mean = (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=1.4, color=colour("accent"))
        .encode(x=x, y=alt.Y("depth_mean:Q", title="waiting", axis=axis), tooltip=tooltip)
    )
    return alt.layer(most, mean).properties(width="container", height=90)
