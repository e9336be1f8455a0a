"""Charts of iterations: one after another, and one of them from the inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from nsys_deepprof.names import by_number, shorten, visible
from nsys_deepprof.reports.charts import (
    CAUSE_LABELS,
    STATE_LABELS,
    painted,
    scale_of,
    texts,
)
from nsys_deepprof.reports.palette import colour
from nsys_deepprof.units import format_ns

if TYPE_CHECKING:
    from nsys_deepprof.analyses.report_data import Anatomy
    from nsys_deepprof.reports.charts import Drawing

STATES = ("compute", "comm", "copy", "memset", "idle")

ROW_HEIGHT = 30
NAME_WIDTH = 80


_COMM_PARTS = {"exposed": "state-comm", "overlapped": "state-compute"}


def communication_times(columns: pl.DataFrame) -> Drawing:
    """The communication in each iteration of one GPU: exposed, and overlapped with compute.

    `columns`: the GPU's rows of `analyses.report_data.communication_columns`.
    """
    size, unit = scale_of((columns["exposed_ns"] + columns["overlapped_ns"]).max())
    rows = columns.select(
        *_along(columns),
        (pl.col("exposed_ns") / size).alias("exposed"),
        (pl.col("overlapped_ns") / size).alias("overlapped"),
    ).unpivot(
        list(_COMM_PARTS),
        index=["from", "until", "which"],
        variable_name="part",
        value_name="time",
    )
    high = pl.col("time").cum_sum().over("from")
    rows = rows.with_columns(high.alias("high"), (high - pl.col("time")).alias("low"))
    chart: alt.Chart = (
        alt.Chart(rows)
        .mark_rect(stroke=colour("panel"), strokeWidth=0.6 if columns.height <= 120 else 0)
        .encode(
            x=alt.X(
                "from:Q",
                title="iteration",
                scale=alt.Scale(nice=False, zero=False),
                axis=alt.Axis(tickMinStep=1, grid=False, format="d"),
            ),
            x2="until:Q",
            y=alt.Y("low:Q", title=unit),
            y2="high:Q",
            color=alt.Color(
                "part:N",
                scale=painted(_COMM_PARTS),
                title=None,
            ),
            tooltip=[
                alt.Tooltip("which:N", title="iteration"),
                alt.Tooltip("part:N"),
                alt.Tooltip("time:Q", title=unit, format=",.4~r"),
            ],
        )
        .properties(width="container", height=110)
    )
    return chart


def _along(columns: pl.DataFrame) -> list[pl.Expr | pl.Series]:
    """Where each column of iterations lies along the axis, `from` and `until`, and `which` they
    are in words."""
    return [
        (pl.col("first_index") - 0.5).alias("from"),
        (pl.col("last_index") + 0.5).alias("until"),
        texts(
            columns,
            "which",
            lambda r: (
                f"{r['first_index']}"
                if r["iterations"] == 1
                else f"{r['first_index']} to {r['last_index']} (mean)"
            ),
        ),
    ]


def iteration_times(columns: pl.DataFrame) -> Drawing:
    """The iterations of one lane: a column each, its height the time, split by GPU state.

    `columns`: the lane's rows of `analyses.report_data.iteration_columns`.
    """
    size, unit = scale_of(columns["max_ns"].max())
    told = columns.with_columns(
        texts(columns, "time", lambda r: format_ns(r["mean_ns"])),
        texts(columns, "longest", lambda r: format_ns(r["max_ns"])),
        texts(columns, "why", lambda r: visible(r["explanation"] or "", 200)),
        (pl.col("max_ns") / size).alias("top"),
        *_along(columns),
    )
    rows = (
        told.unpivot(
            [f"{state}_ns" for state in STATES],
            index=["from", "until", "which", "time"],
            variable_name="state",
            value_name="ns",
        )
        .with_columns(pl.col("state").str.strip_suffix("_ns"), pl.col("ns").cum_sum().over("from"))
        .with_columns(
            (pl.col("ns") / size).alias("high"),
            (pl.col("ns").shift(1).over("from").fill_null(0) / size).alias("low"),
            pl.col("state").replace_strict(STATE_LABELS).alias("label"),
        )
        .with_columns((pl.col("high") - pl.col("low")).alias("part"))
        .filter(pl.col("high") > pl.col("low"))
        .drop("ns")
    )
    x = alt.X(
        "from:Q",
        title="iteration",
        scale=alt.Scale(nice=False, zero=False),
        axis=alt.Axis(tickMinStep=1, grid=False, format="d"),
    )
    present = set(rows["state"])
    states = painted({STATE_LABELS[s]: f"state-{s}" for s in STATES if s in present})
    bars = (
        alt.Chart(rows)
        .mark_rect(stroke=colour("panel"), strokeWidth=0.6 if columns.height <= 120 else 0)
        .encode(
            x=x,
            x2="until:Q",
            y=alt.Y("low:Q", title=unit),
            y2="high:Q",
            color=alt.Color("label:N", scale=states, title=None),
            tooltip=[
                alt.Tooltip("which:N", title="iteration"),
                alt.Tooltip("time:N"),
                alt.Tooltip("label:N", title="state"),
                alt.Tooltip("part:Q", title=f"{unit} in it", format=",.4~r"),
            ],
        )
    )
    slow = told.filter(pl.col("outliers") > 0).select(
        ((pl.col("from") + pl.col("until")) / 2).alias("middle"),
        "top",
        "which",
        "longest",
        "why",
    )
    if slow.height == 0:
        alone: alt.Chart = bars.properties(width="container", height=130)
        return alone
    marks = (
        alt.Chart(slow)
        .mark_point(
            shape="triangle-down", filled=True, size=70, color=colour("mark-slow"), yOffset=-8
        )
        .encode(
            x=alt.X("middle:Q"),
            y="top:Q",
            tooltip=[
                alt.Tooltip("which:N", title="slow"),
                alt.Tooltip("longest:N", title="time"),
                alt.Tooltip("why:N"),
            ],
        )
    )
    return alt.layer(bars, marks).properties(width="container", height=130)


def anatomy(one: Anatomy) -> Drawing:
    """One iteration: a row per stream with what runs on it, and a row of the gaps of the GPU.

    Kernels of one name have one of three shades of their state's colour.
    """
    size, unit = scale_of(one.end_ns - one.start_ns)
    bars = one.bars.with_columns(
        ((pl.col("start_ns") - one.start_ns) / size).alias("a"),
        ((pl.col("end_ns") - one.start_ns) / size).alias("b"),
        _told_apart(one.bars["lane"]),
        pl.col("name")
        .hash(seed=0)
        .mod(3)
        .replace_strict({0: 1.0, 1: 0.82, 2: 0.64})
        .alias("shade"),
        pl.when("blocking")
        .then(pl.lit("blocking copy"))
        .otherwise(pl.col("state").replace_strict(STATE_LABELS))
        .alias("kind"),
        texts(one.bars, "what", lambda r: shorten(visible(r["name"] or "—"), NAME_WIDTH)),
        texts(one.bars, "time", lambda r: format_ns(r["busy_ns"])),
    ).select("lane", "a", "b", "shade", "kind", "what", "time", "ops")
    rows = sorted(set(bars["lane"]), key=by_number)
    gaps = one.gaps.with_columns(
        ((pl.col("start_ns") - one.start_ns) / size).alias("a"),
        ((pl.col("end_ns") - one.start_ns) / size).alias("b"),
        pl.lit("idle gaps").alias("lane"),
        texts(one.gaps, "time", lambda r: format_ns(r["end_ns"] - r["start_ns"])),
        pl.col("cause").replace_strict(CAUSE_LABELS).alias("why"),
        texts(one.gaps, "after", lambda r: shorten(visible(r["prev_op"] or "—"), NAME_WIDTH)),
        texts(one.gaps, "before", lambda r: shorten(visible(r["next_op"] or "—"), NAME_WIDTH)),
    ).select("lane", "a", "b", "time", "why", "after", "before")
    roles = {label: f"state-{state}" for state, label in STATE_LABELS.items()}
    roles["blocking copy"] = "mark-blocking"
    present = set(bars["kind"])
    lanes = alt.Y(
        "lane:N",
        title=None,
        scale=alt.Scale(domain=[*rows, "idle gaps"], paddingInner=0.25, paddingOuter=0.1),
        axis=alt.Axis(ticks=False, domain=False, labelLimit=110),
    )
    x = alt.X(
        "a:Q",
        title=f"{unit} from the start of the iteration",
        axis=alt.Axis(tickCount=12),
        scale=alt.Scale(domain=[0, (one.end_ns - one.start_ns) / size], nice=False),
    )
    work = (
        alt.Chart(bars)
        .mark_rect(stroke=colour("panel"), strokeWidth=0.3, clip=True)
        .encode(
            x=x,
            x2="b:Q",
            y=lanes,
            color=alt.Color(
                "kind:N",
                scale=painted({kind: roles[kind] for kind in roles if kind in present}),
                title=None,
            ),
            opacity=alt.Opacity("shade:Q", scale=None),
            tooltip=[
                alt.Tooltip("what:N", title="first"),
                alt.Tooltip("kind:N"),
                alt.Tooltip("ops:Q", title="operations"),
                alt.Tooltip("time:N"),
            ],
        )
    )
    causes = set(one.gaps["cause"])
    idle = (
        alt.Chart(gaps)
        .mark_rect(clip=True)
        .encode(
            x=x,
            x2="b:Q",
            y=lanes,
            fill=alt.Fill(
                "why:N",
                scale=painted({CAUSE_LABELS[c]: f"cause-{c}" for c in CAUSE_LABELS if c in causes}),
                title=None,
            ),
            tooltip=[
                alt.Tooltip("time:N", title="idle"),
                alt.Tooltip("why:N", title="cause"),
                alt.Tooltip("after:N"),
                alt.Tooltip("before:N"),
            ],
        )
    )
    layers = (work, idle) if gaps.height else (work,)
    return alt.layer(*layers).properties(
        width="container", height=ROW_HEIGHT * (len(rows) + bool(gaps.height))
    )


def _told_apart(lanes: pl.Series) -> pl.Series:
    """Labels of lanes of one GPU without the parts that all of them share."""
    distinct = lanes.unique().drop_nulls()
    parts = [label.split("/")[1:] for label in distinct]
    varying = [k for k in range(3) if len({p[k] for p in parts}) > 1] or [2]
    short = {
        label: " ".join(p[k] for k in varying) for label, p in zip(distinct, parts, strict=True)
    }
    return pl.Series(
        "lane",
        ["unified memory" if label is None else short[label] for label in lanes],
        dtype=pl.String,
    )
