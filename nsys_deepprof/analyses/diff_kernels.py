"""Kernels of two runs by name, whatever their order: changed, new and vanished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.comparison.names import pair_names
from nsys_deepprof.device import device_ops
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsys_deepprof.trace import Trace

SCHEMA: dict[str, pl.DataType] = {
    "what": pl.String(),
    "change": pl.String(),
    "a_name": pl.String(),
    "b_name": pl.String(),
    "match": pl.String(),
    "a_ns": pl.Int64(),
    "b_ns": pl.Int64(),
    "delta_ns": pl.Int64(),
    "delta_share": pl.Float64(),
    "a_calls": pl.Int64(),
    "b_calls": pl.Int64(),
    "a_call_ns": pl.Float64(),
    "b_call_ns": pl.Float64(),
    "call_delta_share": pl.Float64(),
}


def kernel_totals(
    a: Trace, b: Trace, *, a_gpus: Sequence[int], b_gpus: Sequence[int]
) -> pl.DataFrame:
    """One row per pair of kernel names on the given GPUs, largest change first. Schema: `SCHEMA`.

    `a_ns` and `b_ns` are totals over the analysed time, null where the run lacks the kernel;
    `a_call_ns` and `b_call_ns` medians per call, which compare whatever the captures' lengths.
    `match` says how the names were paired: `full`, `normalised` (without a generated hash and
    trailing counters), or null: `change` is then `new` or `vanished`, else `paired`.
    """
    per_a, per_b = _per_name(a, a_gpus), _per_name(b, b_gpus)
    pairs = pair_names(per_a["name"].to_list(), per_b["name"].to_list())
    frame = pl.DataFrame(
        {
            "a_name": [p.a for p in pairs],
            "b_name": [p.b for p in pairs],
            "match": [p.match for p in pairs],
        },
        schema={"a_name": pl.String, "b_name": pl.String, "match": pl.String},
    )
    both = frame.join(
        per_a, left_on="a_name", right_on="name", how="left", maintain_order="left"
    ).join(per_b, left_on="b_name", right_on="name", how="left", suffix="_b", maintain_order="left")
    delta = pl.col("ns_b").fill_null(0) - pl.col("ns").fill_null(0)
    return (
        both.select(
            pl.coalesce("a_name", "b_name").alias("what"),
            pl.when(pl.col("b_name").is_null())
            .then(pl.lit("vanished"))
            .when(pl.col("a_name").is_null())
            .then(pl.lit("new"))
            .otherwise(pl.lit("paired"))
            .alias("change"),
            "a_name",
            "b_name",
            "match",
            pl.col("ns").alias("a_ns"),
            pl.col("ns_b").alias("b_ns"),
            delta.alias("delta_ns"),
            pl.when(pl.col("ns") > 0).then(delta / pl.col("ns")).alias("delta_share"),
            pl.col("calls").fill_null(0).alias("a_calls"),
            pl.col("calls_b").fill_null(0).alias("b_calls"),
            pl.col("call_ns").alias("a_call_ns"),
            pl.col("call_ns_b").alias("b_call_ns"),
            pl.when(pl.col("call_ns") > 0)
            .then(pl.col("call_ns_b") / pl.col("call_ns") - 1)
            .alias("call_delta_share"),
        )
        .sort(pl.col("delta_ns").abs(), descending=True, maintain_order=True)
        .select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())
    )


def _per_name(trace: Trace, gpus: Sequence[int]) -> pl.DataFrame:
    """Calls, total and median time of every kernel name, in the order in which they first run."""
    ops = in_windows(device_ops(trace), trace.windows).filter(
        pl.col("gpu").is_in(list(gpus)) & pl.col("op").is_in(["kernel", "graph"])
    )
    duration = pl.col("end_ns") - pl.col("start_ns")
    return (
        ops.group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            duration.sum().alias("ns"),
            duration.median().alias("call_ns"),
            pl.col("start_ns").min().alias("first_ns"),
        )
        .with_columns(pl.col("name").cast(pl.String))
        .sort("first_ns", "name")
        .drop("first_ns")
    )
