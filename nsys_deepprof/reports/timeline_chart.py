"""The timeline: every GPU's states over the run, and the part of it under a brush.

The specifications hold no rows. The page carries the time in each state per bin as one byte, and
fills the data sets for the range and the width that is looked at: see `templates/timeline.js`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from nsys_deepprof.reports.palette import colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from nsys_deepprof.reports.charts import Drawing

STATES = ("compute", "comm", "copy", "memset", "idle")


LANE = 100
"""Height of a GPU in the timeline's own units: a band of states, then three thin lanes."""

_LANE_TICKS = ((68, "iterations"), (80, "gaps"), (92, "copies"))
_AXIS_WIDTH = 76
"""Of both charts' left axes, so that what is above one another happens at the same time."""

_CONTAINER = {"width": "container"}


def timeline_overview(gpus: Sequence[int], from_ms: float, to_ms: float) -> Drawing:
    """The whole run, one strip per GPU, with a brush. The page fills the data set `bands`."""
    brush = alt.selection_interval(
        name="brush",
        encodings=["x"],
        mark=alt.BrushConfig(fill=colour("accent"), fillOpacity=0.18, stroke=colour("accent")),
    )
    names = _gpu_axis([LANE * g + LANE // 2 for g in range(len(gpus))], "")
    x = alt.X("t:Q", title=None, scale=alt.Scale(domain=[from_ms, to_ms], nice=False))
    chart: alt.Chart = (
        _bands(gpus, x, names)
        .add_params(brush, _gpu_names(gpus))
        .properties(**_CONTAINER, height=max(30, 22 * len(gpus)))
    )
    return chart


def timeline_detail(gpus: Sequence[int], from_ms: float, to_ms: float) -> Drawing:
    """The part under the brush: per GPU a band of states, and a lane each of iterations, gaps and
    copies. The page fills the data sets `bands` and `marks` for the range [from_ms, to_ms)."""
    ticks = [LANE * g + at for g in range(len(gpus)) for at in (30, *(t for t, _ in _LANE_TICKS))]
    lanes = "".join(f"datum.value % {LANE} == {at} ? '{word}' : " for at, word in _LANE_TICKS)
    x = alt.X(
        "t:Q",
        title="ms from the start of the trace",
        scale=alt.Scale(domain=[alt.ExprRef("from_ms"), alt.ExprRef("to_ms")], nice=False),
    )
    names = _gpu_axis(ticks, lanes)
    marks = (
        alt.Chart(alt.NamedData("marks"))
        .mark_rect(clip=True)
        .encode(
            x=alt.X("a:Q"),
            x2="b:Q",
            y=alt.Y("low:Q", axis=names),
            y2="high:Q",
            fill=alt.Fill("paint:N", scale=None),
            stroke=alt.Stroke("paint:N", scale=None),
            opacity=alt.Opacity("faint:Q", scale=None),
        )
    )
    return (
        alt.layer(_bands(gpus, x, names), marks)
        .add_params(
            alt.param(name="from_ms", value=from_ms),
            alt.param(name="to_ms", value=to_ms),
            _gpu_names(gpus),
        )
        .properties(**_CONTAINER, height=96 * len(gpus))
    )


def _gpu_names(gpus: Sequence[int]) -> alt.Parameter:
    return alt.param(name="gpu_names", value=[f"GPU {gpu}" for gpu in gpus])


def _gpu_axis(ticks: list[int], lanes: str) -> alt.Axis:
    return alt.Axis(
        values=ticks,
        labelExpr=f"{lanes}gpu_names[floor(datum.value / {LANE})]",
        grid=False,
        ticks=False,
        domain=False,
        minExtent=_AXIS_WIDTH,
        maxExtent=_AXIS_WIDTH,
        labelOverlap=False,
    )


def _bands(gpus: Sequence[int], x: alt.X, names: alt.Axis) -> alt.Chart:
    """Stacked step areas, one set per GPU, from rows of t, gpu, state, low, high."""
    chart: alt.Chart = (
        alt.Chart(alt.NamedData("bands"))
        .mark_area(interpolate="step-after", clip=True, line=False)
        .encode(
            x=x,
            y=alt.Y(
                "low:Q",
                title=None,
                axis=names,
                scale=alt.Scale(domain=[0, LANE * len(gpus)], reverse=True, nice=False),
            ),
            y2="high:Q",
            color=alt.Color(
                "state:N",
                legend=None,
                scale=alt.Scale(domain=list(STATES), range=[colour(f"state-{s}") for s in STATES]),
            ),
            detail="gpu:Q",
        )
    )
    return chart


def packed(timeline: pl.DataFrame, origin_ns: int) -> dict[str, Any]:
    """The frame of `analyses.timeline` for the page: ms floats, and bytes in base64.

    Keys: `from_ms`, `to_ms`, `bin_ms`, `bins`, `gpus`, `shares`: per GPU one byte per state and
    bin, the state's share of the bin times 255; no time is rounded to none.
    """
    if timeline.height == 0:
        return {}
    gpus = timeline["gpu"].unique().sort().to_list()
    start_ns, end_ns = timeline["start_ns"].to_numpy(), timeline["end_ns"].to_numpy()
    width_ns = int(end_ns[0] - start_ns[0])
    shares = []
    for gpu in gpus:
        mine = timeline.filter(timeline["gpu"] == gpu)
        parts = mine.select(f"{state}_ns" for state in STATES).to_numpy()
        scaled = np.round(parts * (255 / width_ns)).astype(np.uint8)
        scaled[(parts > 0) & (scaled == 0)] = 1
        shares.append(base64.b64encode(scaled.T.tobytes()).decode())
    return {
        "from_ms": (int(start_ns[0]) - origin_ns) / 1e6,
        "to_ms": (int(end_ns[-1]) - origin_ns) / 1e6,
        "bin_ms": width_ns / 1e6,
        "bins": timeline.height // len(gpus),
        "gpus": gpus,
        "shares": shares,
    }
