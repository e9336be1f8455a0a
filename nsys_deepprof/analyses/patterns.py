"""What repeats in each lane: the loop nest, and other repeats, by the time that they explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.mined import Mined, mined
from nsys_deepprof.analyses.nests import lane_nest, whole_nest
from nsys_deepprof.mining.identity import pattern_id
from nsys_deepprof.mining.loops import Nest, Repeated, fold, nest_symbols
from nsys_deepprof.mining.repeats import Repeat, busy_before, find_repeat, top_repeats
from nsys_deepprof.mining.suffix_tree import suffix_array
from nsys_deepprof.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsys_deepprof.analyses.lanes import Lane, Symbols
    from nsys_deepprof.mining.iterations import Iterations
    from nsys_deepprof.trace import Trace

_PART = pl.Struct(
    {"name": pl.String, "pattern": pl.String, "times": pl.Int64, "times_most": pl.Int64}
)

SCHEMA: dict[str, pl.DataType] = {
    "lane": pl.String(),
    "pattern": pl.String(),
    "parent": pl.String(),
    "depth": pl.Int64(),
    "length": pl.Int64(),
    "occurrences": pl.Int64(),
    "coverage_ns": pl.Int64(),
    "coverage_share": pl.Float64(),
    "mean_ns": pl.Float64(),
    "median_ns": pl.Float64(),
    "p95_ns": pl.Float64(),
    "first_start_ns": pl.Int64(),
    "body": pl.List(_PART),
}

LANE_SCHEMA: dict[str, pl.DataType] = {
    "lane": pl.String(),
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "stream_id": pl.Int64(),
    "events": pl.Int64(),
    "busy_ns": pl.Int64(),
    "nest": pl.String(),
    "listed": pl.Int64(),
    "left_out": pl.Int64(),
    "left_out_ns": pl.Int64(),
}

# Beside the nest, repeats are listed that explain this share of their lane, up to a number.
MIN_SHARE = 0.01
MAX_ROWS = 40
# They are looked for where the iterations leave this much of the lane unexplained.
UNEXPLAINED_SHARE = 0.2
# What lies outside of the iterations is folded up to this many operations.
MAX_FOLDED = 200_000


@with_context
def patterns(trace: Trace, *, symbols: Symbols = "names", with_copies: bool = False) -> Result:
    """The repeats of each lane: a row each, lanes by length, the nest first and then by time.

    `symbols`: operations are equal when their kernel names are (`names`), when their launch shapes
    are too (`shapes`), or when their names are but for template arguments and generated hashes
    (`signatures`, for comparison across builds). `with_copies` takes copies and memsets in.

    Columns: lane, pattern (an id of the cycle of names, equal for its rotations, in every lane and
    run), parent (the pattern around it; null at the top), depth, length (operations), occurrences
    (never overlapping), coverage_ns (summed durations of the operations in them), coverage_share
    (of the summed durations of all of the lane's operations), mean_ns, median_ns, p95_ns (first
    start to last end of an occurrence), first_start_ns, body (a `name`, or a `pattern` and how many
    `times`, up to `times_most`). The iteration's row counts its near variants; all others exact
    occurrences, wherever they are in the lane.

    Extra key `lanes`: a row per lane with its `nest` as text, and how many repeats were left out
    and the time in them.
    """
    rows: list[dict[str, Any]] = []
    lanes: list[dict[str, Any]] = []
    every = mined(trace, symbols=symbols, with_copies=with_copies)
    for one in every:
        mine = _lane_rows(one)
        kept = mine[:MAX_ROWS]
        rows += kept
        lanes.append(
            {
                "lane": one.lane.label,
                "gpu": one.lane.gpu,
                "pid": one.lane.pid,
                "stream_id": one.lane.stream_id,
                "events": len(one.lane.sequence),
                "busy_ns": one.lane.sequence.busy_ns,
                "nest": lane_nest(one),
                "listed": len(kept),
                "left_out": len(mine) - len(kept),
                "left_out_ns": sum(row["coverage_ns"] for row in mine[MAX_ROWS:]),
            }
        )
    notes: tuple[str, ...] = ()
    if not every:
        notes = ("No kernels in the analysed time: nothing can repeat.",)
    elif not rows:
        notes = ("Nothing repeats in any lane.",)
    return Result(
        "patterns",
        pl.DataFrame(rows, schema=SCHEMA),
        {"lanes": pl.DataFrame(lanes, schema=LANE_SCHEMA)},
        notes,
    )


@dataclass(frozen=True)
class _Measured:
    """A lane with what every row of it is measured by.

    `busy[i]` is the time of the operations before `i`, `reach[i]` the latest end up to `i`: in a
    lane operations do not overtake each other, but for a few that overlap.
    """

    lane: Lane
    busy: NDArray[np.int64]
    reach: NDArray[np.int64]


def _lane_rows(one: Mined) -> list[dict[str, Any]]:
    found = one.found
    sequence = one.lane.sequence
    lane = _Measured(one.lane, busy_before(sequence), np.maximum.accumulate(sequence.end_ns))
    rows: dict[str, dict[str, Any]] = {}
    outside: list[dict[str, Any]] = []
    if found is not None:
        top = _iteration_row(lane, found)
        rows[top["pattern"]] = top
        for row in _nest_rows(lane, found.nest, top["pattern"], 1):
            rows.setdefault(row["pattern"], row)
        for nest in _outer_nests(one.lane, found):
            outside += _nest_rows(lane, nest, None, 0)
    else:
        outside += _nest_rows(lane, whole_nest(one) or (), None, 0)
    explained = sum(r["coverage_share"] or 0.0 for r in rows.values() if r["depth"] == 0)
    if explained < 1 - UNEXPLAINED_SHARE and len(sequence) > 1:
        array = suffix_array(sequence.symbols)
        outside += [
            _row(lane, repeat, None, 0, _names(one.lane, repeat.word))
            for repeat in top_repeats(sequence, array, limit=MAX_ROWS, min_share=MIN_SHARE)
        ]
    outside.sort(key=lambda row: -row["coverage_ns"])
    for row in outside:
        # A pattern inside the nest is there already: its occurrences were counted everywhere.
        rows.setdefault(row["pattern"], row)
    return list(rows.values())


def _outer_nests(lane: Lane, found: Iterations) -> Iterator[Nest]:
    """The loop nests of what comes before and after the iterations."""
    symbols = lane.sequence.symbols
    for low, high in ((0, int(found.first[0])), (int(found.stop[-1]), len(symbols))):
        if 1 < high - low <= MAX_FOLDED:
            yield fold(symbols[low:high])


def _nest_rows(
    lane: _Measured, nest: Nest, parent: str | None, depth: int
) -> Iterator[dict[str, Any]]:
    """The loops of a nest, each before the loops inside it."""
    for part in nest:
        if not isinstance(part, Repeated):
            continue
        word = np.array(nest_symbols(part.body), np.int32)
        row = _row(
            lane,
            find_repeat(lane.lane.sequence, word, lane.busy),
            parent,
            depth,
            _body(lane.lane, part.body),
        )
        yield row
        yield from _nest_rows(lane, part.body, row["pattern"], depth + 1)


def _iteration_row(lane: _Measured, found: Iterations) -> dict[str, Any]:
    repeat = Repeat(
        found.body,
        found.first,
        pattern_id(found.body, lane.lane.sequence.names),
        int((lane.busy[found.stop] - lane.busy[found.first]).sum()),
    )
    return _row(lane, repeat, None, 0, _body(lane.lane, found.nest), stop=found.stop)


def _row(
    lane: _Measured,
    repeat: Repeat,
    parent: str | None,
    depth: int,
    body: list[dict[str, Any]],
    *,
    stop: NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    sequence = lane.lane.sequence
    stop = repeat.stop if stop is None else stop
    spans = lane.reach[stop - 1] - sequence.start_ns[repeat.first]
    known = len(spans) > 0
    busy_ns = int(lane.busy[-1])
    return {
        "lane": lane.lane.label,
        "pattern": repeat.pattern,
        "parent": parent,
        "depth": depth,
        "length": len(repeat.word),
        "occurrences": len(repeat.first),
        "coverage_ns": repeat.busy_ns,
        "coverage_share": repeat.busy_ns / busy_ns if busy_ns else None,
        "mean_ns": float(spans.mean()) if known else None,
        "median_ns": float(np.median(spans)) if known else None,
        "p95_ns": float(np.quantile(spans, 0.95, method="closest_observation")) if known else None,
        "first_start_ns": int(sequence.start_ns[repeat.first[0]]) if known else None,
        "body": body,
    }


def _body(lane: Lane, nest: Nest) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in nest:
        if isinstance(part, Repeated):
            word = np.array(nest_symbols(part.body), np.int32)
            parts.append(
                {
                    "pattern": pattern_id(word, lane.sequence.names),
                    "times": part.least,
                    "times_most": part.most,
                }
            )
        else:
            parts += _names(lane, np.array(part.symbols, np.int32))
    return parts


def _names(lane: Lane, word: NDArray[np.int32]) -> list[dict[str, Any]]:
    return [{"name": lane.sequence.names[code]} for code in word.tolist()]
