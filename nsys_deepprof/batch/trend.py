"""The same work over time and side by side: series, changes of level, settings compared."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.analyses.gaps import CAUSES
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS
from nsys_deepprof.batch.change_points import ChangePoint, change_points
from nsys_deepprof.batch.loops import match_loops
from nsys_deepprof.batch.works import WORK_TAG, group_works, setting_keys, setting_text

if TYPE_CHECKING:
    from collections.abc import Callable

    Anatomy = Callable[[str, str], pl.DataFrame]

NEAR_RUNS = 5
"""What changed is told from the medians of so many runs on either side of a change."""

IDLE_SHARES = tuple(f"idle_{cause}_share" for cause in CAUSES)
STATE_SHARES = tuple(f"{column.removesuffix('_ns')}_share" for column in STATE_COLUMNS)
ITERATION_STATES = tuple(f"iteration_{column}" for column in STATE_COLUMNS)

_FIGURES = ("iteration_median_ns", "iteration_mean_ns", *ITERATION_STATES)

DIFFERENCE_SCHEMA: dict[str, pl.DataType] = {
    "what": pl.String(),
    "a_name": pl.String(),
    "b_name": pl.String(),
    "match": pl.String(),
    "positions": pl.Int64(),
    "a_ns": pl.Float64(),
    "b_ns": pl.Float64(),
    "delta_ns": pl.Float64(),
}


@dataclass(frozen=True)
class Change:
    """A change of level in a series: where, and what differs at the positions of the loop.

    `differences` has the schema `DIFFERENCE_SCHEMA`, the largest first (None: the loops are too
    long); `states` a row per state and idle cause with `before` and `after`. `loop_changed`: the
    kernels are not the same.
    """

    point: ChangePoint
    loop_changed: bool
    differences: pl.DataFrame | None
    states: pl.DataFrame


@dataclass(frozen=True)
class Series:
    """Runs of one work on one kind of GPU with one setting, by capture start."""

    gpu_name: str | None
    setting: str
    points: pl.DataFrame
    changes: tuple[Change, ...]

    @property
    def current(self) -> pl.DataFrame:
        """The runs since the last change of level."""
        return self.points[self.changes[-1].point.index :] if self.changes else self.points


@dataclass(frozen=True)
class Pairing:
    """The loops of two series laid side by side: `differences` as in `Change`, `a` to `b`.

    None where the loops are too long for that.
    """

    a: Series
    b: Series
    differences: pl.DataFrame | None


@dataclass(frozen=True)
class Work:
    """Runs that do the same: the fastest series first.

    `name` is the tag or None; `kernels` the length of its loop, `top_kernel` where most of its
    time is spent.
    """

    name: str | None
    kernels: int
    top_kernel: str | None
    series: tuple[Series, ...]
    pairings: tuple[Pairing, ...]


def find_works(runs: pl.DataFrame, gpus: pl.DataFrame, anatomy: Anatomy) -> list[Work]:
    """The works of an archive, the one with the most runs first.

    `runs` and `gpus` are the catalogue's tables; `anatomy(run_id, lane)` gives the positions of an
    iteration. A run counts once in a series: with the longest median of its GPUs there, and the
    shares of their time together. Runs without iterations are in none.
    """
    units = _units(runs, gpus)
    if units.height == 0:
        return []
    loops = _loops(units, anatomy)
    work_of = group_works(loops)
    keyed = units.with_columns(
        pl.col("tags").map_elements(_work_tag, return_dtype=pl.String).alias("tagged"),
        pl.col("pattern").replace_strict(work_of).alias("like"),
    ).with_columns(pl.coalesce(pl.format("tag {}", "tagged"), "like").alias("work"))
    parts = keyed.partition_by("work", maintain_order=True)
    parts.sort(key=lambda part: -part["run_id"].n_unique())
    return [_work(part, anatomy) for part in parts]


def differences(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame | None:
    """What takes another time in loop `b` than in loop `a`, the largest difference first.

    `a`, `b`: rows of an `anatomy`. Positions of equal names are one row, their times added up. It
    is about a 'kernel', the lane's idle time before it ('gap'), or a kernel that only one of the
    two has ('added', 'gone'). Schema: `DIFFERENCE_SCHEMA`; None where the loops are too long.
    """
    matched = match_loops(a["name"].to_list(), b["name"].to_list())
    if matched is None:
        return None
    columns = ["position", "name", "median_ns", "gap_median_ns"]
    both = matched
    for side, loop in (("a", a), ("b", b)):
        mine = loop.select(pl.col(columns).name.prefix(f"{side}_"))
        both = both.join(
            mine, left_on=side, right_on=f"{side}_position", how="left", maintain_order="left"
        )
    what = (
        pl.when(pl.col("a").is_null())
        .then(pl.lit("added"))
        .when(pl.col("b").is_null())
        .then(pl.lit("gone"))
        .otherwise(pl.lit("kernel"))
    )
    names = ("a_name", "b_name", "match")
    parts = [
        both.select(what.alias("what"), *names, a_ns="a_median_ns", b_ns="b_median_ns"),
        both.select(
            pl.lit("gap").alias("what"), *names, a_ns="a_gap_median_ns", b_ns="b_gap_median_ns"
        ),
    ]
    # A side that has nothing there has no time, not a time of zero.
    total = (
        pl.when(pl.col(c).count() > 0).then(pl.col(c).sum()).alias(c) for c in ("a_ns", "b_ns")
    )
    rows = (
        pl.concat(parts)
        .group_by("what", *names, maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("positions"), *total)
        .with_columns((pl.col("b_ns").fill_null(0) - pl.col("a_ns").fill_null(0)).alias("delta_ns"))
        .filter((pl.col("delta_ns") != 0) | (pl.col("what") != "gap"))
        .sort(pl.col("delta_ns").abs(), descending=True, maintain_order=True)
    )
    return rows.select(pl.col(c).cast(t) for c, t in DIFFERENCE_SCHEMA.items())


def _units(runs: pl.DataFrame, gpus: pl.DataFrame) -> pl.DataFrame:
    """GPUs with iterations, with their run's place, time and tags; by capture start."""
    about = runs.filter(pl.col("status") == "ok").select(
        "run_id", "position", "path", "capture_start_utc_ns", "tags", "report", "dataset"
    )
    return (
        gpus.filter(pl.col("pattern").is_not_null())
        .join(about, on="run_id", how="inner")
        .sort("capture_start_utc_ns", "position", "gpu", nulls_last=True)
    )


def _work_tag(tags: str) -> str | None:
    value = json.loads(tags).get(WORK_TAG)
    return None if value is None else str(value)


def _loops(units: pl.DataFrame, anatomy: Anatomy) -> dict[str, list[str]]:
    """Kernel names of every pattern, the one that most runs have first."""
    known = units.group_by("pattern", maintain_order=True).agg(
        pl.col("run_id", "lane").first(), pl.col("run_id").n_unique().alias("runs")
    )
    return {
        row["pattern"]: anatomy(row["run_id"], row["lane"])["name"].to_list()
        for row in known.sort("runs", descending=True, maintain_order=True).iter_rows(named=True)
    }


def _work(units: pl.DataFrame, anatomy: Anatomy) -> Work:
    each = units.unique("run_id", maintain_order=True)
    keys = setting_keys([json.loads(text) for text in each["tags"]], each["name"].to_list())
    settings = [setting_text(json.loads(text), keys) for text in units["tags"]]
    parts = units.with_columns(pl.Series("setting", settings, pl.String)).partition_by(
        "name", "setting", maintain_order=True, as_dict=True
    )
    series = [
        _series(name, setting, _points(part), anatomy) for (name, setting), part in parts.items()
    ]
    series.sort(key=lambda one: _level(one.current))
    loop = _typical(series[0].current[::-1], anatomy)
    by_kernel = loop.group_by("name", maintain_order=True).agg(pl.col("median_ns").sum())
    top = by_kernel.sort("median_ns", descending=True, nulls_last=True, maintain_order=True)
    names = top["name"].to_list()
    return Work(
        name=units["tagged"][0],
        kernels=loop.height,
        top_kernel=names[0] if names else None,
        series=tuple(series),
        pairings=tuple(
            Pairing(series[0], other, differences(loop, _typical(other.current[::-1], anatomy)))
            for other in series[1:]
        ),
    )


def _points(units: pl.DataFrame) -> pl.DataFrame:
    """One row a run: the figures of its slowest GPU, the shares of all of them together."""
    shares = [
        pl.when(pl.col("window_ns").sum() > 0)
        .then(pl.col(column).sum() / pl.col("window_ns").sum())
        .alias(share)
        for column, share in (
            *zip(STATE_COLUMNS, STATE_SHARES, strict=True),
            *((f"idle_{cause}_ns", f"idle_{cause}_share") for cause in CAUSES),
        )
    ]
    slowest = pl.col("iteration_median_ns").arg_max()
    return units.group_by("run_id", maintain_order=True).agg(
        pl.col("path", "capture_start_utc_ns", "report", "dataset", "tags").first(),
        pl.col("gpu", "lane", "pattern", "iterations", *_FIGURES, "iteration_p95_ns").get(slowest),
        *shares,
    )


def _level(points: pl.DataFrame) -> float:
    median = points["iteration_median_ns"].median()
    return median if isinstance(median, float) else 0.0


def _series(gpu_name: str | None, setting: str, points: pl.DataFrame, anatomy: Anatomy) -> Series:
    found = change_points(points["iteration_median_ns"].to_numpy())
    changes = tuple(_change(point, points, anatomy) for point in found)
    return Series(gpu_name, setting, points, changes)


def _change(point: ChangePoint, points: pl.DataFrame, anatomy: Anatomy) -> Change:
    before = points[point.from_index : point.index].tail(NEAR_RUNS)
    after = points[point.index : point.to_index].head(NEAR_RUNS)
    columns = [*ITERATION_STATES, *IDLE_SHARES]
    states = pl.DataFrame(
        {
            "what": columns,
            "before": before.select(pl.col(columns).median()).row(0),
            "after": after.select(pl.col(columns).median()).row(0),
        },
        schema={"what": pl.String, "before": pl.Float64, "after": pl.Float64},
    )
    loops = _typical(before[::-1], anatomy), _typical(after, anatomy)
    patterns = [Counter(side["pattern"]).most_common(1)[0][0] for side in (before, after)]
    return Change(
        point=point,
        loop_changed=patterns[0] != patterns[1],
        differences=differences(*loops),
        states=states,
    )


def _typical(points: pl.DataFrame, anatomy: Anatomy) -> pl.DataFrame:
    """The anatomy of a few runs: per position the median of those whose loop is cut alike."""
    first: pl.DataFrame | None = None
    alike: list[pl.DataFrame] = []
    for run_id, lane in points.head(NEAR_RUNS).select("run_id", "lane").iter_rows():
        loop = anatomy(run_id, lane)
        first = loop if first is None else first
        if loop["name"].equals(first["name"]):
            alike.append(loop)
    return (
        pl.concat(alike)
        .group_by("position", maintain_order=True)
        .agg(pl.col("name").first(), pl.col("median_ns", "gap_median_ns").median())
        .sort("position")
    )
