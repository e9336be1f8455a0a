"""The iterations of each GPU: how long, how the GPU spent them, which were slow and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS, gpu_states
from nsys_deepprof.analyses.mined import Mined, main_lanes, mined
from nsys_deepprof.analyses.nests import lane_nest
from nsys_deepprof.mining.identity import pattern_id
from nsys_deepprof.mining.iterations import is_outlier
from nsys_deepprof.mining.outliers import (
    Explanation,
    Usual,
    explain,
    gaps_before,
    grouped_quantiles,
    usual,
)
from nsys_deepprof.names import shorten
from nsys_deepprof.result import Result
from nsys_deepprof.units import format_ns

if TYPE_CHECKING:
    from nsys_deepprof.analyses.lanes import Symbols
    from nsys_deepprof.mining.iterations import Iterations
    from nsys_deepprof.mining.sequence import Sequence
    from nsys_deepprof.trace import Trace

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "stream_id": pl.Int64(),
    "index": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "duration_ns": pl.Int64(),
    "first_event": pl.Int64(),
    "kernels": pl.Int64(),
    **dict.fromkeys(STATE_COLUMNS, pl.Int64()),
    "variant": pl.Int64(),
    "outlier": pl.Boolean(),
    "explanation": pl.String(),
    "between": pl.Int64(),
    "lane": pl.String(),
    "pattern": pl.String(),
}

LANE_SCHEMA: dict[str, pl.DataType] = {
    "lane": pl.String(),
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "stream_id": pl.Int64(),
    "events": pl.Int64(),
    "source": pl.String(),
    "reason": pl.String(),
    "iterations": pl.Int64(),
    "outliers": pl.Int64(),
    "variants": pl.Int64(),
    "median_ns": pl.Float64(),
    "share": pl.Float64(),
    "pattern": pl.String(),
    "phase": pl.String(),
    "nvtx": pl.String(),
    "nvtx_agreement": pl.Float64(),
    "before": pl.Int64(),
    "between": pl.Int64(),
    "after": pl.Int64(),
    "nest": pl.String(),
}

ANATOMY_SCHEMA: dict[str, pl.DataType] = {
    "lane": pl.String(),
    "pattern": pl.String(),
    "position": pl.Int64(),
    "name": pl.String(),
    "present_share": pl.Float64(),
    "median_ns": pl.Float64(),
    "p5_ns": pl.Float64(),
    "p95_ns": pl.Float64(),
    "gap_median_ns": pl.Float64(),
    "gap_p95_ns": pl.Float64(),
    "share": pl.Float64(),
}

NAME_WIDTH = 60


@with_context
def iterations(
    trace: Trace,
    *,
    unit: int | None = None,
    all_lanes: bool = False,
    symbols: Symbols = "names",
    with_copies: bool = False,
) -> Result:
    """One row per iteration, by lane and time, found from the sequence of kernels alone.

    `unit` asks for another level of the loop nest: the loop whose body is nearest to so many
    operations. By default one lane per GPU and process, the one with the most iteration time;
    `all_lanes` gives every lane that has iterations. `symbols` and `with_copies` as in `patterns`.

    An iteration lasts from the start of its first operation to that of the next one's (the last:
    to the end of its own last operation), and its state columns add up to that. Columns besides
    those of the contract: `between` (operations after it that belong to no iteration), `lane`,
    `pattern`. `first_event` and `kernels` count the lane's kernels and whole graphs.

    Extra keys: `found_by` ('sequence', or 'none' where no lane has iterations), `reason` (why none;
    null otherwise), `lanes` (a row per lane that was looked at), `anatomy` (a row per position of
    the usual iteration of each listed lane: its kernel, how many iterations have it, duration, the
    lane's idle time before it, and its share of the summed medians of all positions).
    """
    key = ("iterations", unit, all_lanes, symbols, with_copies)
    return trace.once(key, lambda: _iterations(trace, unit, all_lanes, symbols, with_copies))


def _iterations(
    trace: Trace, unit: int | None, all_lanes: bool, symbols: Symbols, with_copies: bool
) -> Result:
    every = mined(trace, symbols=symbols, with_copies=with_copies, unit=unit)
    listed = [m for m in every if m.found is not None] if all_lanes else main_lanes(every)
    parts: list[pl.DataFrame] = []
    anatomies: list[pl.DataFrame] = []
    outliers: dict[str, int] = {}
    for one in listed:
        assert one.found is not None
        rows, anatomy = _describe(trace, one, one.found)
        outliers[one.lane.label] = int(rows["outlier"].sum())
        parts.append(rows)
        anatomies.append(anatomy)
    frame = pl.concat(parts) if parts else pl.DataFrame(schema=SCHEMA)
    extra: dict[str, Any] = {
        "found_by": "sequence" if parts else "none",
        "reason": None if parts else _reason(every),
        "lanes": pl.DataFrame(
            [_lane_row(m, outliers.get(m.lane.label)) for m in every], schema=LANE_SCHEMA
        ),
        "anatomy": pl.concat(anatomies) if anatomies else pl.DataFrame(schema=ANATOMY_SCHEMA),
    }
    return Result("iterations", frame, extra, tuple(_notes(every, listed, extra["reason"])))


def _describe(trace: Trace, one: Mined, found: Iterations) -> tuple[pl.DataFrame, pl.DataFrame]:
    lane, sequence = one.lane, one.lane.sequence
    gap_ns = gaps_before(sequence)
    run_ns = sequence.end_ns - sequence.start_ns
    typical = usual(found, run_ns, gap_ns)
    slow = is_outlier(found.duration_ns)
    # Whatever makes an iteration slow is searched for only where one is.
    texts: list[str | None] = [None] * len(found)
    for turn in np.flatnonzero(slow).tolist():
        texts[turn] = _sentence(sequence, found, explain(sequence, found, turn, typical, gap_ns))
    counted = np.r_[0, np.cumsum(lane.is_kernel)]
    states = gpu_states(trace)[lane.gpu].split(found.start_ns, found.end_ns)
    following = np.r_[found.first[1:], found.stop[-1]]
    pattern = pattern_id(found.body, sequence.names)
    size = len(found)
    rows = pl.DataFrame(
        {
            "gpu": [lane.gpu] * size,
            "pid": [lane.pid] * size,
            "stream_id": [lane.stream_id] * size,
            "index": np.arange(size),
            "start_ns": found.start_ns,
            "end_ns": found.end_ns,
            "duration_ns": found.duration_ns,
            "first_event": counted[found.first],
            "kernels": counted[found.stop] - counted[found.first],
            **states,
            "variant": found.variant,
            "outlier": slow,
            "explanation": texts,
            "between": following - found.stop,
            "lane": [lane.label] * size,
            "pattern": [pattern] * size,
        },
        schema=SCHEMA,
        strict=False,
    )
    return rows, _anatomy(one, found, typical, gap_ns, pattern)


def _anatomy(
    one: Mined,
    found: Iterations,
    typical: Usual,
    gap_ns: np.ndarray[tuple[int], np.dtype[np.int64]],
    pattern: str,
) -> pl.DataFrame:
    sequence = one.lane.sequence
    size = len(found.body)
    rows = np.flatnonzero(found.position >= 0)
    position = found.position[rows]
    run_ns = (sequence.end_ns - sequence.start_ns)[rows]
    times = np.bincount(position, minlength=size)
    run_p5, run_p95 = grouped_quantiles(position, run_ns, size, (0.05, 0.95))
    (gap_p95,) = grouped_quantiles(position, gap_ns[rows], size, (0.95,))
    total_ns = float(typical.duration_ns.sum() + typical.gap_ns.sum())
    gap_median = typical.gap_ns[:size].copy()
    # Around the cycle: what comes before the first position is the way from the last.
    gap_median[0] = typical.gap_ns[size]
    share = (typical.duration_ns + gap_median) / total_ns if total_ns else np.full(size, np.nan)
    return (
        pl.DataFrame(
            {
                "position": np.arange(size),
                "name": [sequence.names[code] for code in found.body.tolist()],
                "present_share": times / len(found),
                "median_ns": typical.duration_ns,
                "p5_ns": run_p5,
                "p95_ns": run_p95,
                "gap_median_ns": gap_median,
                "gap_p95_ns": gap_p95,
                "share": share,
            }
        )
        .with_columns(
            # No iteration has this operation: nothing was measured.
            pl.when(pl.col("present_share") > 0).then(pl.col(column)).alias(column)
            for column in ("median_ns", "p5_ns", "p95_ns", "gap_median_ns", "gap_p95_ns")
        )
        .with_columns(
            pl.lit(one.lane.label).alias("lane"),
            pl.lit(pattern).alias("pattern"),
            pl.col("share").fill_nan(None),
        )
        .select(pl.col(c).cast(t) for c, t in ANATOMY_SCHEMA.items())
    )


def _sentence(sequence: Sequence, found: Iterations, why: Explanation | None) -> str:
    if why is None:
        return "slower throughout: no single place stands out"
    name = "" if why.symbol is None else shorten(sequence.names[why.symbol], NAME_WIDTH)
    added = format_ns(why.added_ns)
    size = len(found.body)
    # What one place adds may be the least of it.
    spread = why.total_ns > 2 * why.added_ns
    total = format_ns(why.total_ns)
    if why.cause == "kernel":
        every = f"; all kernels together {total}" if spread else ""
        return f"kernel {why.position + 1} of {size} ({name}) took {added} more than usual{every}"
    if why.cause == "gap":
        where = (
            "before the next iteration"
            if why.position == size
            else f"before kernel {why.position + 1} of {size} ({name})"
        )
        every = f"; all gaps together were {total} longer" if spread else ""
        return f"the gap {where} was {added} longer than usual{every}"
    place = "after its last kernel" if why.position == size else f"before kernel {why.position + 1}"
    every = f"; all extra work took {total}" if spread else ""
    return f"extra work {place}: {why.operations:,} operations from {name}, {added}{every}"


def _short(name: str) -> str:
    short = name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"
    return short.replace("`", "'")


def _lane_row(one: Mined, outliers: int | None) -> dict[str, Any]:
    lane, found = one.lane, one.found
    row: dict[str, Any] = {
        "lane": lane.label,
        "gpu": lane.gpu,
        "pid": lane.pid,
        "stream_id": lane.stream_id,
        "events": len(lane.sequence),
        "source": "none" if found is None else "sequence",
        "reason": one.choice.reason or None,
        "outliers": outliers,
        "nest": lane_nest(one),
    }
    if found is None:
        return row | {"iterations": 0}
    return row | {
        "iterations": len(found),
        "variants": int(found.variant.max()) + 1,
        "median_ns": float(np.median(found.duration_ns)),
        "share": found.loop.share,
        "pattern": pattern_id(found.body, lane.sequence.names),
        "phase": "nvtx" if one.nvtx_settled else found.loop.turns.evidence,
        "nvtx": one.nvtx,
        "nvtx_agreement": one.nvtx_agreement,
        "before": int(found.first[0]),
        "between": int((found.first[1:] - found.stop[:-1]).sum()),
        "after": len(lane.sequence) - int(found.stop[-1]),
    }


def _reason(every: list[Mined]) -> str:
    if not every:
        return "no kernels in the analysed time"
    busiest = max(every, key=lambda m: (m.lane.compute_ns, len(m.lane.sequence)))
    if busiest.found is not None:
        return "only lanes with little of their GPU's kernel time repeat"
    return busiest.choice.reason


def _operations(count: int) -> str:
    return "one operation" if count == 1 else f"about {count:,} operations"


def _notes(every: list[Mined], listed: list[Mined], reason: str | None) -> list[str]:
    if not listed:
        notes = [f"No iterations: {reason}."]
        for one in every[:4]:
            if one.choice.loops:
                loops = "; ".join(
                    f"{len(loop.turns):,} turns of {_operations(loop.cycle.period)} explain "
                    f"{100 * loop.share:.0f} %"
                    for loop in one.choice.loops[:3]
                )
                notes.append(f"{one.lane.label}: {loops} of the lane's time.")
        return notes
    notes = []
    for one in listed:
        if one.nvtx is not None and one.nvtx_agreement is not None:
            settled = "; the ranges settled where they begin" if one.nvtx_settled else ""
            notes.append(
                f"{one.lane.label}: {100 * one.nvtx_agreement:.0f} % of the iterations begin with "
                f"an NVTX range `{_short(one.nvtx)}`{settled}."
            )
    return notes
