"""What changed at each place of an iteration: kernels, waiting, and work beside the lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.device import communication_names
from nsys_deepprof.signatures import signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsys_deepprof.analyses.compared_lanes import Compared
    from nsys_deepprof.analyses.occurrences import Occurrences

CHANGES = ("slower", "faster", "same", "added", "gone", "replaced")
PARTS = ("kernel", "idle", "exposed copy", "exposed communication", "copy", "memset", "graph")

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "position": pl.Int64(),
    "part": pl.Enum(PARTS),
    "what": pl.String(),
    "change": pl.Enum(CHANGES),
    "a_ns": pl.Float64(),
    "b_ns": pl.Float64(),
    "delta_ns": pl.Float64(),
    "delta_share": pl.Float64(),
    "a_calls": pl.Int64(),
    "b_calls": pl.Int64(),
    "match": pl.String(),
}

MIN_CHANGE_SHARE = 0.02
MIN_CHANGE_NS = 200
"""The clock of a GPU's time stamps has steps of tens of ns: less is called the same."""
SURE_DEVIATIONS = 4.0
USUAL_SHARE = 0.5
"""Work beside the lane is listed where this share of the iterations of a run has it."""

# Standard error of a median of normal values, from their median absolute deviation.
_MEDIAN_ERROR = 1.2533 * 1.4826
_WAITS = {"idle_ns": "idle", "copy_ns": "exposed copy", "comm_ns": "exposed communication"}


def change_rows(
    compared: Compared, a: Occurrences, b: Occurrences, *, comm_patterns: tuple[str, ...] = ()
) -> pl.DataFrame:
    """One row per place and part of the iteration, largest change first. Schema: `SCHEMA`.

    `a_ns` and `b_ns` are medians over the iterations that have the work, null where none has it;
    `a_calls` and `b_calls` how often the compared iterations have it. `part` is the kernel at the
    place, or what the GPU did besides computing from its start to the start of the next place's
    (`idle`, `exposed copy`, `exposed communication`), or work that has no place in the lane: a
    copy, a memset, another stream's kernel. `position` counts the places of both bodies side by
    side. `change` is `same` unless the medians differ by over 4 standard errors, 2 % and 200 ns.
    """
    columns = compared.columns
    places = pl.DataFrame(
        {"a_place": columns.a, "b_place": columns.b, "equal": columns.equal}
    ).with_row_index("position")
    names_a = _names(compared.a_lane.sequence.names, compared.a_found.body.tolist())
    names_b = _names(compared.b_lane.sequence.names, compared.b_found.body.tolist())
    places = (
        places.with_columns(pl.col("position").cast(pl.Int64))
        .join(names_a, left_on="a_place", right_on="place", how="left", maintain_order="left")
        .join(names_b, left_on="b_place", right_on="place", how="left", suffix="_b",
              maintain_order="left")
        .rename({"name": "a_name", "name_b": "b_name"})
    )  # fmt: skip
    per_a, per_b = _per_place(a), _per_place(b)
    both = places.join(
        per_a.rename({c: f"a_{c}" for c in per_a.columns}), on="a_place", how="left"
    ).join(per_b.rename({c: f"b_{c}" for c in per_b.columns}), on="b_place", how="left")
    # A communication kernel of the lane itself is a kernel row already.
    comm = communication_names(pl.concat([both["a_name"], both["b_name"]]), comm_patterns)
    is_comm = pl.coalesce("a_name", "b_name").is_in(comm.implode())
    rows = [
        _kernel_rows(both),
        *(_wait_rows(both, column) for column in _WAITS if column != "comm_ns"),
    ]
    rows.append(_wait_rows(both, "comm_ns").join(both.filter(is_comm), on="position", how="anti"))
    rows.append(_side_rows(compared, a, b))
    gpu = pl.lit(compared.a_lane.gpu, pl.Int64).alias("gpu")
    return (
        pl.concat([_with_change(part) for part in rows])
        .with_columns(gpu)
        .sort(pl.col("delta_ns").abs(), descending=True, nulls_last=True, maintain_order=True)
        .select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())
    )


def _names(names: Sequence[str], body: Sequence[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"place": range(len(body)), "name": [names[code] for code in body]},
        schema={"place": pl.Int64, "name": pl.String},
    )


def _median_and_error(column: str, name: str) -> list[pl.Expr]:
    value = pl.col(column)
    spread = (value - value.median()).abs().median()
    return [
        value.median().alias(name),
        (_MEDIAN_ERROR * spread / pl.len().sqrt()).alias(f"{name}_error"),
    ]


def _per_place(occurrences: Occurrences) -> pl.DataFrame:
    """Per place of the body: medians of everything, and how many iterations have it."""
    columns = ("run_ns", *_WAITS)
    return (
        occurrences.places.group_by("position")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            *(part for column in columns for part in _median_and_error(column, column)),
        )
        .rename({"position": "place"})
    )


def _kernel_rows(both: pl.DataFrame) -> pl.DataFrame:
    replaced = (pl.col("a_place") >= 0) & (pl.col("b_place") >= 0) & ~pl.col("equal")
    what = (
        pl.when(replaced)
        .then(pl.format("{} -> {}", "a_name", "b_name"))
        .otherwise(pl.coalesce("a_name", "b_name"))
    )
    same_text = pl.col("a_name") == pl.col("b_name")
    return both.select(
        "position",
        pl.lit("kernel").alias("part"),
        what.alias("what"),
        replaced.alias("replaced"),
        *_sides("run_ns"),
        pl.when(pl.col("equal"))
        .then(pl.when(same_text).then(pl.lit("full")).otherwise(pl.lit("normalised")))
        .alias("match"),
    )


def _wait_rows(both: pl.DataFrame, column: str) -> pl.DataFrame:
    """Waiting after one place and before the next, where either run has any."""
    name = pl.coalesce("a_name", "b_name")
    texts = both.select(name).to_series().unique().drop_nulls().to_list()
    # The kernel rows of these places have the names in full.
    after = name.replace({text: signature(text) for text in texts})
    before = after.shift(-1).fill_null(after.first())
    part = _WAITS[column]
    return (
        both.sort("position")
        .select(
            "position",
            pl.lit(part).alias("part"),
            pl.format("{} after {}, before {}", pl.lit(part), after, before).alias("what"),
            pl.lit(False).alias("replaced"),
            *_sides(column),
            pl.lit(None, pl.String).alias("match"),
        )
        .filter((pl.col("a_ns").fill_null(0) > 0) | (pl.col("b_ns").fill_null(0) > 0))
    )


def _sides(column: str) -> list[pl.Expr]:
    return [
        *(pl.col(f"{side}_{column}").alias(f"{side}_ns") for side in "ab"),
        *(pl.col(f"{side}_{column}_error").alias(f"{side}_error") for side in "ab"),
        *(pl.col(f"{side}_calls").fill_null(0).alias(f"{side}_calls") for side in "ab"),
    ]


def _side_rows(compared: Compared, a: Occurrences, b: Occurrences) -> pl.DataFrame:
    """Work beside the lane, matched by name and its number within the iteration."""
    keys = ["op", "name", "ordinal"]
    place_of_a = {place: i for i, place in enumerate(compared.columns.a.tolist())}
    place_of_b = {place: i for i, place in enumerate(compared.columns.b.tolist())}
    per = [
        one.side.group_by(keys, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            pl.col("position").mode().min(),
            *_median_and_error("run_ns", "ns"),
        )
        .with_columns(pl.col("position").replace_strict(known, default=None).alias("position"))
        .with_columns((pl.col("calls") >= USUAL_SHARE * max(one.count, 1)).alias("usual"))
        for one, known in ((a, place_of_a), (b, place_of_b))
    ]
    both = per[0].join(per[1], on=keys, how="full", coalesce=True, suffix="_b", nulls_equal=True)
    part = pl.col("op").replace_strict({"memcpy": "copy"}, default=pl.col("op"))
    return both.filter(
        pl.col("usual").fill_null(False) | pl.col("usual_b").fill_null(False)
    ).select(
        pl.coalesce("position", "position_b").cast(pl.Int64).alias("position"),
        part.alias("part"),
        pl.when(pl.col("ordinal") > 0)
        .then(pl.format("{} #{}", "name", pl.col("ordinal") + 1))
        .otherwise("name")
        .alias("what"),
        pl.lit(False).alias("replaced"),
        pl.col("ns").alias("a_ns"),
        pl.col("ns_b").alias("b_ns"),
        pl.col("ns_error").alias("a_error"),
        pl.col("ns_error_b").alias("b_error"),
        pl.col("calls").fill_null(0).alias("a_calls"),
        pl.col("calls_b").fill_null(0).alias("b_calls"),
        pl.lit(None, pl.String).alias("match"),
    )


def _with_change(rows: pl.DataFrame) -> pl.DataFrame:
    # Work that a run does not have takes no time there: its cost is the whole of the difference.
    delta = pl.col("b_ns").fill_null(0) - pl.col("a_ns").fill_null(0)
    error = (pl.col("a_error") ** 2 + pl.col("b_error") ** 2).sqrt()
    sure = (
        (delta.abs() > SURE_DEVIATIONS * error)
        & (delta.abs() >= MIN_CHANGE_NS)
        & (delta.abs() >= MIN_CHANGE_SHARE * pl.col("a_ns"))
    )
    change = (
        pl.when(pl.col("replaced"))
        .then(pl.lit("replaced"))
        .when(pl.col("a_ns").is_null())
        .then(pl.lit("added"))
        .when(pl.col("b_ns").is_null())
        .then(pl.lit("gone"))
        .when(sure & (delta > 0))
        .then(pl.lit("slower"))
        .when(sure)
        .then(pl.lit("faster"))
        .otherwise(pl.lit("same"))
    )
    share = pl.when(pl.col("a_ns") > 0).then(delta / pl.col("a_ns"))
    return rows.with_columns(
        delta.alias("delta_ns"), share.alias("delta_share"), change.alias("change")
    ).drop("a_error", "b_error", "replaced")
