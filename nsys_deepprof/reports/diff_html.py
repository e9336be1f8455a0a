"""The page of a comparison: the verdict, the parts of an iteration, and every change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof import __version__
from nsys_deepprof.reports.page import render_page

if TYPE_CHECKING:
    from nsys_deepprof.result import Result

LISTED_ROWS = 200
LISTED_KERNELS = 100
DRAWN_BARS = 240
CHART_WIDTH, CHART_HEIGHT = 960.0, 180.0

STATES = ("compute", "comm", "copy", "memset", "idle")
_TONES = {"slower": "high", "faster": "low", "same": "low", "inconclusive": "medium"}


@dataclass(frozen=True)
class Bar:
    """One bar of the chart: places of the iteration, and the time that changed there."""

    x: float
    y: float
    width: float
    height: float
    role: str
    first: int
    last: int
    delta_ns: float


def render(result: Result) -> str:
    """The text of one HTML file from a `diff` result.

    At most `LISTED_ROWS` changes and `LISTED_KERNELS` kernels are listed, the largest first.
    """
    extra = result.extra
    aligned = "position" in result.frame.columns
    context = {
        "version": __version__,
        "sources": extra["sources"],
        "names": {side: PurePath(source).name for side, source in extra["sources"].items()},
        "iteration": extra["iteration"],
        "lanes": extra["lanes"],
        "summary": extra["summary"],
        "notes": result.notes,
        "warnings": extra.get("warnings", []),
        "tone": _TONES[extra["iteration"]["verdict"]],
        "stacks": _stacks(extra["parts"]),
        "parts": extra["parts"].to_dicts(),
        "aligned": aligned,
        "bars": _bars(result.frame) if aligned else [],
        "chart": (CHART_WIDTH, CHART_HEIGHT),
        "rows": _changed(result.frame).head(LISTED_ROWS).to_dicts() if aligned else [],
        "rows_total": _changed(result.frame).height if aligned else 0,
        "unchanged": result.frame.height - _changed(result.frame).height if aligned else 0,
        "kernels": extra["kernels"].head(LISTED_KERNELS).to_dicts(),
        "kernels_total": extra["kernels"].height,
        "new": extra["new"].height,
        "vanished": extra["vanished"].height,
        "is_skipped": lambda _: False,
    }
    return render_page("diff.html.j2", context, scripts=("tables.js",))


def _changed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("change").cast(pl.String) != "same")


def _stacks(parts: pl.DataFrame) -> list[dict[str, object]]:
    """Per GPU and run the states of an iteration, with the larger wall time as the whole."""
    stacks: list[dict[str, object]] = []
    for (gpu,), mine in parts.group_by("gpu", maintain_order=True):
        by_part = {row["part"]: row for row in mine.iter_rows(named=True)}
        for side in "ab":
            values = [
                (f"state-{state}", state, by_part[state][f"{side}_ns"] or 0) for state in STATES
            ]
            stacks.append(
                {
                    "gpu": gpu,
                    "side": side.upper(),
                    "values": values,
                    "wall_ns": by_part["wall"][f"{side}_ns"],
                    "whole_ns": max(
                        by_part["wall"]["a_ns"] or 0,
                        by_part["wall"]["b_ns"] or 0,
                        sum(value for _, _, value in values),
                    ),
                }
            )
    return stacks


def _bars(rows: pl.DataFrame) -> list[Bar]:
    """Changed time by place: kernels and waiting beside each other, neighbours joined where the
    iteration has more places than there is room for."""
    roles = {"kernel": "state-compute", "idle": "mark-slow", "exposed copy": "state-copy"}
    placed = rows.filter(
        pl.col("part").cast(pl.String).is_in(list(roles)) & pl.col("position").is_not_null()
    )
    last = placed["position"].max()
    if not isinstance(last, int):
        return []
    size = -(-(last + 1) // DRAWN_BARS)
    bins = (
        placed.with_columns((pl.col("position") // size).alias("bin"))
        .group_by("bin", pl.col("part").cast(pl.String), maintain_order=True)
        .agg(pl.col("delta_ns").sum())
        .sort("bin", "part")
    )
    top = bins["delta_ns"].abs().max()
    if not isinstance(top, int | float) or top == 0:
        return []
    step = CHART_WIDTH / (last // size + 1)
    width = step / len(roles)
    middle = CHART_HEIGHT / 2
    bars = []
    for number, part, delta_ns in bins.iter_rows():
        height = abs(delta_ns) / top * middle
        bars.append(
            Bar(
                x=number * step + list(roles).index(part) * width,
                y=middle - height if delta_ns > 0 else middle,
                width=max(width, 1.0),
                height=height,
                role=roles[part],
                first=number * size,
                last=min(number * size + size - 1, last),
                delta_ns=delta_ns,
            )
        )
    return bars
