"""The ranks of one job side by side: who is slow, where, and who waits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof import intervals
from nsys_deepprof.analyses.occurrences import occurrences
from nsys_deepprof.analyses.rank_lanes import (
    CLOCK_ACCURACY_NS,
    collectives,
    exposed_waits,
    find_ranks,
)
from nsys_deepprof.result import Result
from nsys_deepprof.signatures import signature
from nsys_deepprof.units import format_ns, format_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsys_deepprof.analyses.rank_lanes import Rank
    from nsys_deepprof.trace import Trace

SCHEMA: dict[str, pl.DataType] = {
    "index": pl.Int64(),
    "slowest": pl.Int64(),
    "own_ns": pl.Int64(),
    "others_ns": pl.Float64(),
    "lag_ns": pl.Float64(),
    "lag_share": pl.Float64(),
    "position": pl.Int64(),
    "where": pl.String(),
    "where_ns": pl.Float64(),
    "duration_ns": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
    "imbalance": pl.Float64(),
}
RANK_SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    "source": pl.String(),
    "lane": pl.String(),
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "offset_ns": pl.Int64(),
    "skipped": pl.Int64(),
    "iterations": pl.Int64(),
    "duration_median_ns": pl.Float64(),
    "own_median_ns": pl.Float64(),
    "wait_ns": pl.Int64(),
    "wait_share": pl.Float64(),
    "collective_ns": pl.Int64(),
    "collective_wait_ns": pl.Int64(),
    "times_slowest": pl.Int64(),
}
RANK_ITERATION_SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int64(),
    "index": pl.Int64(),
    "duration_ns": pl.Int64(),
    "own_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
    "lag_ns": pl.Float64(),
}
PLACE_SCHEMA: dict[str, pl.DataType] = {
    "position": pl.Int64(),
    "name": pl.String(),
    "slowest": pl.Int64(),
    "own_ns": pl.Float64(),
    "others_ns": pl.Float64(),
    "lag_ns": pl.Float64(),
    "run_lag_ns": pl.Float64(),
    "times_worst": pl.Int64(),
}
COLLECTIVE_SCHEMA: dict[str, pl.DataType] = {
    "name": pl.String(),
    "calls": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
    "wait_share": pl.Float64(),
}

STRAGGLER_TIMES_SHARE = 0.5
STRAGGLER_LAG_SHARE = 0.01
STRAGGLER_CHANCE = 0.05
"""A straggler is the slowest in over half of the iterations, its own time is over that of the
others by this share, and among ranks that are equally fast one would be the slowest as often with
at most this chance."""

MOST_OF_LAG_SHARE = 0.5
"""A place that loses less than this share of a rank's lag does not explain it."""


def ranks(traces: Sequence[Trace]) -> Result:
    """One row per iteration that all ranks of a job have; see `find_ranks` for what a rank is.

    A rank that works ahead waits in the next collective, so all iterations last equally long: what
    tells the slow rank is its own time, the iteration less the time in which its GPU waits in a
    collective for the others and computes nothing.

    Columns: index, slowest (the rank with the most own time), own_ns (its own time), others_ns (the
    median of the other ranks' own times), lag_ns (own_ns - others_ns) and lag_share (of
    others_ns), position, where and where_ns (the place in the iteration at which it loses most
    against the median of the others, and how much), duration_ns (the longest iteration),
    transfer_ns (what its collectives cost: each the shortest duration over the ranks), wait_ns (the
    rest of their durations, over all ranks: waiting for others, hidden behind compute or not; both
    null where the ranks have no collective in common),
    imbalance (longest own time over their mean, less 1). Nothing is joined across files by time,
    stream, device or correlation, only by number of the iteration and place in it.

    Extra keys: `ranks`: a frame of `RANK_SCHEMA`; `wait_ns` there is the exposed waiting, and
    `collective_wait_ns` all of it; `rank_iterations`: a frame of `RANK_ITERATION_SCHEMA`, each rank
    in each iteration, where `lag_ns` is its own time less the median of the other ranks';
    `places`: a frame of `PLACE_SCHEMA`, the places of the iteration from the most lost time to the
    least: the rank that is slowest there by its median over the iterations, how much that is over
    the median of the others', how much of it is the operation itself (`run_lag_ns`; the rest
    follows it), and in how many iterations the slowest rank lost most there; `collectives`: a frame
    of `COLLECTIVE_SCHEMA`; `straggler`: the rank that is slow again and again, or null;
    `imbalance`: mean over the iterations; `clock_accuracy_ns`; `status`: 'ok', 'one_rank' or
    'no_iterations'; `summary`: sentences.
    """
    found, count, notes = find_ranks(traces)
    status = (
        "ok" if len(found) > 1 and count else "one_rank" if len(found) == 1 else "no_iterations"
    )
    if status != "ok":
        notes.append(
            "One rank only: there is nothing to compare it with."
            if status == "one_rank"
            else "The ranks have no whole iteration in common."
            if found
            else "No rank with iterations."
        )
        count = 0
    calls, unmatched = collectives(found, count) if found else (None, 0)
    if unmatched:
        notes.append(
            f"{unmatched:,} communication kernels are not on all ranks equally often: their time "
            "is not split into transfer and waiting."
        )
    if count and calls is not None and calls.height == 0:
        notes.append(
            "No communication kernel that all ranks take part in: all of an iteration counts as "
            "the rank's own time."
        )
    per_turn, per_place = _measure(found, count, calls)
    frame = _rows(found, per_turn, per_place, calls)
    straggler = _straggler(frame, len(found))
    lags = _lags(per_turn, len(found))
    extra: dict[str, Any] = {
        "status": status,
        "ranks": _rank_rows(found, count, per_turn, calls, frame),
        "rank_iterations": lags,
        "places": _place_rows(found, per_place, frame),
        "collectives": _collective_rows(calls),
        "straggler": straggler,
        "imbalance": frame["imbalance"].mean() if frame.height else None,
        "clock_accuracy_ns": CLOCK_ACCURACY_NS if len(traces) > 1 else 0,
        "summary": _summary(found, frame, straggler) if status == "ok" else [],
    }
    return Result("ranks", frame, extra, tuple(notes))


_TURN = {
    "rank": pl.Int64,
    "index": pl.Int64,
    "duration_ns": pl.Int64,
    "own_ns": pl.Int64,
    "exposed_wait_ns": pl.Int64,
}
_PLACE = {
    "rank": pl.Int64,
    "index": pl.Int64,
    "position": pl.Int64,
    "run_ns": pl.Int64,
    "idle_ns": pl.Int64,
    "own_ns": pl.Int64,
}


def _measure(
    found: Sequence[Rank], count: int, calls: pl.DataFrame | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Own time per rank and iteration, and per rank, iteration and place of the first rank."""
    turns, places = [pl.DataFrame(schema=_TURN)], [pl.DataFrame(schema=_PLACE)]
    for rank in found if count else ():
        assert calls is not None
        waits = exposed_waits(rank, calls)
        chosen = slice(rank.skipped, rank.skipped + count)
        starts, ends = rank.found.start_ns[chosen], rank.found.end_ns[chosen]
        waited = intervals.covered_between(waits, starts, ends)
        turns.append(
            pl.DataFrame(
                {
                    "rank": np.full(count, rank.number),
                    "index": np.arange(count),
                    "duration_ns": ends - starts,
                    "own_ns": ends - starts - waited,
                    "exposed_wait_ns": waited,
                },
                schema=_TURN,
            )
        )
        if rank.place is None:
            continue
        mine = occurrences(rank.trace, rank.lane, rank.found).places.with_columns(
            (pl.col("turn") - rank.skipped).alias("index")
        )
        mine = mine.filter(pl.col("index").is_between(0, count - 1))
        slot_start = mine["slot_start_ns"].to_numpy()
        slot_end = slot_start + mine["slot_ns"].to_numpy()
        waited = intervals.covered_between(waits, slot_start, slot_end)
        places.append(
            mine.select(
                pl.lit(rank.number, pl.Int64).alias("rank"),
                "index",
                pl.Series("position", rank.place[mine["position"].to_numpy()], dtype=pl.Int64),
                "run_ns",
                "idle_ns",
                (pl.col("slot_ns") - pl.Series("waited", waited)).alias("own_ns"),
            ).filter(pl.col("position") >= 0)
        )
    return pl.concat(turns), pl.concat(places)


def _without_any(calls: pl.DataFrame, *names: str) -> pl.Expr:
    """Figures of collectives: 0 where there was none just here, null where there is none at all."""
    figures = pl.col(*names)
    return figures.fill_null(0) if calls.height else pl.when(False).then(figures).name.keep()


def _rows(
    found: Sequence[Rank],
    per_turn: pl.DataFrame,
    per_place: pl.DataFrame,
    calls: pl.DataFrame | None,
) -> pl.DataFrame:
    if per_turn.height == 0 or calls is None:
        return pl.DataFrame(schema=SCHEMA)
    slowest = (
        per_turn.sort("index", "own_ns", "rank", descending=[False, True, False])
        .group_by("index", maintain_order=True)
        .agg(
            pl.col("rank").first().alias("slowest"),
            pl.col("own_ns").first(),
            pl.col("own_ns").slice(1).median().alias("others_ns"),
            pl.col("duration_ns").max(),
            (pl.col("own_ns").max() / pl.col("own_ns").mean() - 1).alias("imbalance"),
        )
    )
    lag = pl.col("own_ns") - pl.col("others_ns")
    shared = calls.group_by(pl.col("iteration").alias("index")).agg(
        pl.col("transfer_ns").filter(pl.col("rank") == found[0].number).sum(),
        (pl.col("duration_ns") - pl.col("transfer_ns")).sum().alias("wait_ns"),
    )
    return (
        slowest.with_columns(
            lag.alias("lag_ns"),
            pl.when(pl.col("others_ns") > 0).then(lag / pl.col("others_ns")).alias("lag_share"),
        )
        .join(_where(found, slowest, per_place), on="index", how="left", maintain_order="left")
        .join(shared, on="index", how="left", maintain_order="left")
        .with_columns(_without_any(calls, "transfer_ns", "wait_ns"))
        .select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())
    )


def _where(found: Sequence[Rank], slowest: pl.DataFrame, per_place: pl.DataFrame) -> pl.DataFrame:
    """Per iteration the place at which the slowest rank loses most against the others."""
    told = per_place.join(slowest.select("index", "slowest"), on="index")
    key = ["index", "position"]
    others = (
        told.filter(pl.col("rank") != pl.col("slowest"))
        .group_by(key)
        .agg(pl.col("own_ns", "run_ns", "idle_ns").median())
    )
    lost = (
        told.filter(pl.col("rank") == pl.col("slowest"))
        .join(others, on=key, suffix="_others")
        .with_columns((pl.col("own_ns") - pl.col("own_ns_others")).alias("where_ns"))
        .sort("index", "where_ns", "position", descending=[False, True, False])
        .unique("index", keep="first", maintain_order=True)
    )
    slower = (pl.col("run_ns") - pl.col("run_ns_others")) >= (
        pl.col("idle_ns") - pl.col("idle_ns_others")
    )
    return lost.join(_texts(found[0]), on="position", how="left", maintain_order="left").select(
        "index",
        "position",
        pl.when(slower)
        .then(pl.format("{} runs longer", "name"))
        .otherwise(pl.format("idle for longer after {}", "name"))
        .alias("where"),
        "where_ns",
    )


def _texts(first: Rank) -> pl.DataFrame:
    """What runs at each place of the first rank's iteration."""
    names = [signature(first.lane.sequence.names[code]) for code in first.found.body.tolist()]
    return pl.DataFrame(
        {"position": range(len(names)), "name": names},
        schema={"position": pl.Int64, "name": pl.String},
    )


def _lags(per_turn: pl.DataFrame, size: int) -> pl.DataFrame:
    """Each rank in each iteration, with its own time over the median of the others'."""
    # Rank by rank, and each rank's iterations in order.
    own = per_turn["own_ns"].to_numpy().reshape(size or 1, -1)
    if size < 2 or own.size == 0:
        return pl.DataFrame(schema=RANK_ITERATION_SCHEMA)
    lag = [own[rank] - np.median(np.delete(own, rank, axis=0), axis=0) for rank in range(size)]
    return per_turn.select(
        pl.col("rank", "index", "duration_ns", "own_ns"),
        pl.col("exposed_wait_ns").alias("wait_ns"),
        pl.Series("lag_ns", np.concatenate(lag), dtype=pl.Float64),
    )


def _place_rows(found: Sequence[Rank], per_place: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The places of the iteration that two ranks or more have, the most lost time first."""
    if per_place.height == 0:
        return pl.DataFrame(schema=PLACE_SCHEMA)
    times = rows.group_by("position").agg(pl.len().cast(pl.Int64).alias("times_worst"))
    lag = pl.col("own_ns") - pl.col("others_ns")
    return (
        per_place.group_by("position", "rank")
        .agg(pl.col("own_ns", "run_ns").median())
        .sort("position", "own_ns", "rank", descending=[False, True, False])
        .group_by("position", maintain_order=True)
        .agg(
            pl.col("rank").first().alias("slowest"),
            pl.col("own_ns").first(),
            pl.col("own_ns").slice(1).median().alias("others_ns"),
            (pl.col("run_ns").first() - pl.col("run_ns").slice(1).median()).alias("run_lag_ns"),
        )
        .drop_nulls("others_ns")
        .with_columns(lag.alias("lag_ns"))
        .join(_texts(found[0]), on="position", how="left", maintain_order="left")
        .join(times, on="position", how="left", maintain_order="left")
        .with_columns(pl.col("times_worst").fill_null(0))
        .sort("lag_ns", "position", descending=[True, False])
        .select(pl.col(name).cast(dtype) for name, dtype in PLACE_SCHEMA.items())
    )


def _rank_rows(
    found: Sequence[Rank],
    count: int,
    per_turn: pl.DataFrame,
    calls: pl.DataFrame | None,
    rows: pl.DataFrame,
) -> pl.DataFrame:
    described = pl.DataFrame(
        [
            {
                "rank": rank.number,
                "source": rank.trace.source,
                "lane": rank.lane.label,
                "gpu": rank.lane.gpu,
                "pid": rank.lane.pid,
                "offset_ns": rank.offset_ns,
                "skipped": rank.skipped,
                "iterations": count,
            }
            for rank in found
        ],
        schema={name: RANK_SCHEMA[name] for name in list(RANK_SCHEMA)[:8]},
    )
    own = per_turn.group_by("rank").agg(
        pl.col("duration_ns").median().alias("duration_median_ns"),
        pl.col("own_ns").median().alias("own_median_ns"),
        pl.col("exposed_wait_ns").sum().alias("wait_ns"),
        pl.when(pl.col("duration_ns").sum() > 0)
        .then(pl.col("exposed_wait_ns").sum() / pl.col("duration_ns").sum())
        .alias("wait_share"),
    )
    if calls is None:
        calls = pl.DataFrame(
            schema={"rank": pl.Int64, "duration_ns": pl.Int64, "transfer_ns": pl.Int64}
        )
    shared = calls.group_by("rank").agg(
        pl.col("duration_ns").sum().alias("collective_ns"),
        (pl.col("duration_ns") - pl.col("transfer_ns")).sum().alias("collective_wait_ns"),
    )
    times = rows.group_by(pl.col("slowest").alias("rank")).agg(
        pl.len().cast(pl.Int64).alias("times_slowest")
    )
    joined = described
    for part in (own, shared, times):
        joined = joined.join(part, on="rank", how="left", maintain_order="left")
    if count:
        joined = joined.with_columns(
            pl.col("times_slowest").fill_null(0),
            _without_any(calls, "collective_ns", "collective_wait_ns", "wait_ns", "wait_share"),
        )
    return joined.select(pl.col(name).cast(dtype) for name, dtype in RANK_SCHEMA.items())


def _collective_rows(calls: pl.DataFrame | None) -> pl.DataFrame:
    """Per name: calls of the job, what they cost, and the waiting of all ranks together."""
    if calls is None:
        return pl.DataFrame(schema=COLLECTIVE_SCHEMA)
    wait = (pl.col("duration_ns") - pl.col("transfer_ns")).sum()
    one_rank = pl.col("rank") == pl.col("rank").min()
    return (
        calls.group_by("name", maintain_order=True)
        .agg(
            one_rank.sum().cast(pl.Int64).alias("calls"),
            pl.col("transfer_ns").filter(one_rank).sum(),
            wait.alias("wait_ns"),
            pl.when(pl.col("duration_ns").sum() > 0)
            .then(wait / pl.col("duration_ns").sum())
            .alias("wait_share"),
        )
        .sort("wait_ns", descending=True, maintain_order=True)
        .select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVE_SCHEMA.items())
    )


def _straggler(rows: pl.DataFrame, size: int) -> int | None:
    if rows.height == 0 or size < 2:
        return None
    rank, count = _most_often_slowest(rows)
    lag = rows.filter(pl.col("slowest") == rank)["lag_share"].median()
    again = count > STRAGGLER_TIMES_SHARE * rows.height
    if not again or _chance(count, rows.height, size) > STRAGGLER_CHANCE:
        return None
    return rank if isinstance(lag, float) and lag >= STRAGGLER_LAG_SHARE else None


def _most_often_slowest(rows: pl.DataFrame) -> tuple[int, int]:
    """The rank that is the slowest most often, the first of equals, and how often."""
    times = rows.group_by("slowest").len().sort("len", "slowest", descending=[True, False])
    rank, count = times.row(0)
    return int(rank), int(count)


def _chance(count: int, iterations: int, size: int) -> float:
    """At most the chance that of `size` equal ranks any is the slowest `count` times or more.

    Chernoff's bound on the binomial tail, times the ranks. `count / iterations` is over
    `1 / size`.
    """
    share, even = count / iterations, 1 / size
    divergence = share * math.log(share / even)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - even))
    return min(size * math.exp(-iterations * divergence), 1.0)


def _summary(found: Sequence[Rank], rows: pl.DataFrame, straggler: int | None) -> list[str]:
    imbalance = rows["imbalance"].mean()
    told = format_share(imbalance if isinstance(imbalance, float) else None)
    lines = [
        f"{len(found)} ranks, {rows.height:,} iterations: the longest own time is {told} over the "
        "mean."
    ]
    if straggler is None:
        rank, times = _most_often_slowest(rows)
        lines.append(
            f"No rank is slow again and again: the slowest most often is rank {rank}, in "
            f"{times:,} of {rows.height:,} iterations."
        )
        return lines
    mine = rows.filter(pl.col("slowest") == straggler)
    lag_ns, share = mine["lag_ns"].median(), mine["lag_share"].median()
    where = _usual_place(mine)
    lines.append(
        f"Rank {straggler} ({found[straggler].lane.label} of {found[straggler].trace.source}) is "
        f"the slowest in {mine.height:,} of {rows.height:,} iterations, by "
        f"{format_ns(lag_ns if isinstance(lag_ns, float) else None)} "
        f"({format_share(share if isinstance(share, float) else None)}){where}."
    )
    return lines


def _usual_place(rows: pl.DataFrame) -> str:
    """Where a slow rank loses most; it may lose a little everywhere, or here and there."""
    placed = rows.drop_nulls("where")
    if placed.height == 0:
        return ""
    places = placed.group_by("where").agg(pl.len().alias("times"), pl.col("where_ns").median())
    where, times, where_ns = places.sort("times", "where", descending=[True, False]).row(0)
    explained = (placed["where_ns"] / placed["lag_ns"]).median()
    if not isinstance(explained, float) or explained < MOST_OF_LAG_SHARE:
        return (
            f", spread over the iteration (the largest part, {format_ns(where_ns)}, where {where})"
        )
    if times > rows.height / 2:
        return f", mostly where {where}"
    return f", at changing places (most often, {times:,} times, where {where})"
