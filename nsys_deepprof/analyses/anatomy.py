"""One iteration as it ran: the operations of every stream, and the gaps between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.analyses.gaps import all_gaps
from nsys_deepprof.copies import costed_copies
from nsys_deepprof.device import device_ops
from nsys_deepprof.ids import lane_label

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

MAX_BARS = 1_200
"""Steps of an iteration: neighbours that are both shorter than one are one bar."""

MAX_GAPS = 200

_LANE = ["pid", "context_id", "stream_id"]


def median_iteration(rows: pl.DataFrame) -> dict[str, int]:
    """Of the iterations of one lane, the one in the middle by duration (the shorter of two), of
    the most frequent variant: its columns gpu, index, start_ns, end_ns."""
    usual = rows.filter(pl.col("variant") == pl.col("variant").min())
    middle = usual.sort("duration_ns", "index").row((usual.height - 1) // 2, named=True)
    return {key: middle[key] for key in ("gpu", "index", "start_ns", "end_ns")}


def iteration_bars(
    trace: Trace, *, gpu: int, start_ns: int, end_ns: int, max_bars: int = MAX_BARS
) -> pl.DataFrame:
    """What runs on a GPU within [start_ns, end_ns), by stream and time.

    Neighbours of one stream and state are one bar where both, and the time between them, are
    shorter than a step: the interval over `max_bars`.

    Columns: lane (text; null for unified-memory migrations, which have no stream), start_ns, end_ns
    (clipped to the interval), state, name (of the first operation), ops, busy_ns (the summed
    durations), blocking (whether a copy in it blocks the host).
    """
    inside = (pl.col("gpu") == gpu) & (pl.col("start_ns") < end_ns) & (pl.col("end_ns") > start_ns)
    ops = device_ops(trace).filter(inside)
    blocks = (
        costed_copies(trace)
        .filter(inside & (pl.col("blocking").list.len() > 0))
        .select(*_LANE, "start_ns", "end_ns", blocking=True)
        .unique()
    )
    step_ns = max(1, (end_ns - start_ns) // max_bars)
    short = (pl.col("end_ns") - pl.col("start_ns")) < step_ns
    follows = (
        (pl.col("state") == pl.col("state").shift(1))
        & (pl.col("start_ns") - pl.col("end_ns").shift(1) < step_ns)
        & short
        & short.shift(1)
        & ~pl.col("blocking")
        & ~pl.col("blocking").shift(1)
    )
    return (
        ops.join(blocks, on=[*_LANE, "start_ns", "end_ns"], how="left", nulls_equal=True)
        .with_columns(
            pl.col("blocking").fill_null(False),
            pl.when(pl.col("stream_id").is_not_null()).then(lane_label()).alias("lane"),
            pl.col("state").cast(pl.String),
            pl.col("start_ns").clip(lower_bound=start_ns),
            pl.col("end_ns").clip(upper_bound=end_ns),
        )
        .sort("lane", "start_ns", maintain_order=True)
        .with_columns((~follows.over("lane")).fill_null(True).cum_sum().alias("bar"))
        .group_by("bar", "lane", maintain_order=True)
        .agg(
            pl.col("start_ns").first(),
            pl.col("end_ns").max(),
            pl.col("state").first(),
            pl.col("name").first().cast(pl.String),
            pl.len().cast(pl.Int64).alias("ops"),
            (pl.col("end_ns") - pl.col("start_ns")).sum().alias("busy_ns"),
            pl.col("blocking").any(),
        )
        .drop("bar")
    )


def iteration_gaps(
    trace: Trace, *, gpu: int, start_ns: int, end_ns: int, max_gaps: int = MAX_GAPS
) -> pl.DataFrame:
    """The longest idle gaps of a GPU within [start_ns, end_ns), clipped to it, in order of time.

    Columns: start_ns, end_ns, cause, prev_op, next_op.
    """
    return (
        all_gaps(trace)
        .filter(
            (pl.col("gpu") == gpu) & (pl.col("start_ns") < end_ns) & (pl.col("end_ns") > start_ns)
        )
        .select(
            pl.col("start_ns").clip(lower_bound=start_ns),
            pl.col("end_ns").clip(upper_bound=end_ns),
            pl.col("cause", "prev_op", "next_op").cast(pl.String),
        )
        .sort(pl.col("end_ns") - pl.col("start_ns"), descending=True, maintain_order=True)
        .head(max_gaps)
        .sort("start_ns")
    )
