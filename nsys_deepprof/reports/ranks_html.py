"""The page of a job's ranks: who is slow, when, where, and who waits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof import __version__
from nsys_deepprof.reports.page import render_page

if TYPE_CHECKING:
    from nsys_deepprof.result import Result

LISTED_ITERATIONS = 100
LISTED_PLACES = 100
LISTED_COLLECTIVES = 100

DRAWN_CELLS = 4_000
DRAWN_COLUMNS = 160
"""Iterations that have a column of their own; of more, neighbours share one."""

FULL_COLOUR_QUANTILE = 0.9
"""Of the largest lags of the iterations: a few hiccups leave all else to be seen."""

LEAST_SCALE_SHARE = 0.01
"""Scales reach this share of an iteration at least: differences that are nothing look like it."""

HIGH_LAG_SHARE = 0.05


@dataclass(frozen=True)
class Cell:
    """A rank in the iterations `first` to `last`, and its mean lag behind the others there."""

    column: int
    first: int
    last: int
    lag_ns: float
    role: str
    strength: float


@dataclass(frozen=True)
class Column:
    """The mean imbalance in the iterations `first` to `last`, and its height on the scale."""

    first: int
    last: int
    imbalance: float
    height: float


def render(result: Result) -> str:
    """The text of one HTML file from a `ranks` result.

    At most `DRAWN_CELLS` cells are drawn, and `LISTED_ITERATIONS` iterations, `LISTED_PLACES`
    places and `LISTED_COLLECTIVES` collectives listed: those that lose most.
    """
    extra = result.extra
    ranks = extra["ranks"]
    sources = ranks["source"].unique(maintain_order=True).to_list()
    rows = result.frame.sort("lag_ns", "index", descending=[True, False])
    top_ns = full_colour_ns(extra["rank_iterations"])
    imbalances, top_imbalance = columns(result.frame, _columns(result.frame.height, ranks.height))
    context: dict[str, Any] = {
        "version": __version__,
        "sources": sources,
        "files": len(sources),
        "title": _title(sources),
        "status": extra["status"],
        "tone": _tone(result),
        "summary": extra["summary"],
        "notes": result.notes,
        "warnings": extra.get("warnings", []),
        "straggler": extra["straggler"],
        "imbalance": extra["imbalance"],
        "ranks": ranks.to_dicts(),
        "waits": waits(ranks),
        "most_ns": ranks["collective_ns"].max(),
        "cells": cells(extra["rank_iterations"], top_ns),
        "full_colour_ns": top_ns,
        "columns": imbalances,
        "top_imbalance": top_imbalance,
        "iterations": result.frame.height,
        "rows": rows.head(LISTED_ITERATIONS).to_dicts(),
        "places": extra["places"].head(LISTED_PLACES).to_dicts(),
        "places_total": extra["places"].height,
        "collectives": extra["collectives"].head(LISTED_COLLECTIVES).to_dicts(),
        "collectives_total": extra["collectives"].height,
        "is_skipped": lambda _: False,
    }
    return render_page("ranks.html.j2", context, scripts=("tables.js",), style="ranks.css")


def cells(lags: pl.DataFrame, top_ns: float) -> dict[int, list[Cell]]:
    """Per rank its cells from the first iteration to the last, from `rank_iterations`.

    `strength` is 1 from `top_ns` on; `role` is the colour of being behind or ahead.
    """
    count = lags["index"].n_unique()
    drawn = _columns(count, lags["rank"].n_unique())
    binned = (
        lags.with_columns((pl.col("index") * drawn // max(count, 1)).alias("column"))
        .group_by("rank", "column", maintain_order=True)
        .agg(
            pl.col("index").min().alias("first"),
            pl.col("index").max().alias("last"),
            pl.col("lag_ns").mean(),
        )
    )
    found: dict[int, list[Cell]] = {}
    for rank, column, first, last, lag_ns in binned.iter_rows():
        role = "mark-slow" if lag_ns > 0 else "state-compute"
        strength = min(abs(lag_ns) / top_ns, 1.0) if top_ns else 0.0
        found.setdefault(rank, []).append(Cell(column, first, last, lag_ns, role, strength))
    return found


def columns(rows: pl.DataFrame, drawn: int) -> tuple[list[Column], float]:
    """The imbalance over the run in at most `drawn` columns, from the rows of `ranks`, and the top
    of their scale."""
    binned = (
        rows.with_columns((pl.col("index") * drawn // max(rows.height, 1)).alias("column"))
        .group_by("column", maintain_order=True)
        .agg(
            pl.col("index").min().alias("first"),
            pl.col("index").max().alias("last"),
            pl.col("imbalance").mean(),
        )
        .drop("column")
    )
    top = max(binned["imbalance"].to_list(), default=0.0)
    top = max(top, LEAST_SCALE_SHARE)
    drawn_columns = [Column(first, last, mean, mean / top) for first, last, mean in binned.rows()]
    return drawn_columns, top


def waits(ranks: pl.DataFrame) -> dict[int, list[tuple[str, str, int]]]:
    """Per rank the time in collectives as parts (role, label, ns) that add up to it."""
    return {
        row["rank"]: [
            ("state-comm", "transfer", row["collective_ns"] - row["collective_wait_ns"]),
            (
                "cause-unknown",
                "waiting beside computing",
                row["collective_wait_ns"] - row["wait_ns"],
            ),
            ("mark-slow", "waiting and computing nothing", row["wait_ns"]),
        ]
        for row in ranks.drop_nulls("collective_ns").iter_rows(named=True)
    }


def full_colour_ns(lags: pl.DataFrame) -> float:
    """The lag from which on a cell has its full colour."""
    largest = lags.group_by("index").agg(pl.col("lag_ns").abs().max())
    usual = largest["lag_ns"].quantile(FULL_COLOUR_QUANTILE) or 0.0
    least = lags["own_ns"].quantile(0.5) or 0.0
    return max(usual, LEAST_SCALE_SHARE * least)


def _columns(iterations: int, ranks: int) -> int:
    return min(iterations, DRAWN_COLUMNS, max(DRAWN_CELLS // max(ranks, 1), 1))


def _title(sources: list[str]) -> str:
    """The file's name, or that of the folder with all files."""
    folders = {PurePath(source).parent.name for source in sources}
    if len(sources) == 1:
        return PurePath(sources[0]).name
    return folders.pop() if len(folders) == 1 and "" not in folders else "Job"


def _tone(result: Result) -> str:
    straggler = result.extra["straggler"]
    if straggler is None:
        return "low"
    lag = result.frame.filter(pl.col("slowest") == straggler)["lag_share"].median()
    return "high" if isinstance(lag, float) and lag >= HIGH_LAG_SHARE else "medium"
