"""Where on the time line the loops of each lane are, and each turn of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof.analyses.mined import mined
from nsys_deepprof.analyses.nests import whole_nest
from nsys_deepprof.mining.loops import Repeated, nest_symbols
from nsys_deepprof.mining.repeats import find_repeat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsys_deepprof.analyses.lanes import Lane
    from nsys_deepprof.mining.loops import Nest
    from nsys_deepprof.trace import Trace

MAX_LOOPS = 64
"""Loops per lane that are looked up, outer ones first."""

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "context_id": pl.Int64(),
    "stream_id": pl.Int64(),
    "level": pl.Int64(),
    "pattern": pl.String(),
    "length": pl.Int64(),
    "times": pl.Int64(),
    "turn": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
}


def loop_turns(trace: Trace) -> pl.DataFrame:
    """The loops inside iterations, and of lanes without iterations: a row per loop, wherever its
    body follows itself, and a row per turn of it.

    Columns: gpu, pid, context_id, stream_id, level (1: not inside another loop of the iteration or
    lane), pattern (the body's id), length (operations of the body), times (turns of this loop),
    turn (from 0; null for the loop as a whole), start_ns, end_ns (first start to last end). Turns
    of one operation have no rows of their own. Sorted by lane, level and start, a loop before its
    turns.
    """
    frames = [pl.DataFrame(schema=SCHEMA)]
    for one in mined(trace):
        nest = one.found.nest if one.found is not None else whole_nest(one) or ()
        seen: set[str] = set()
        for level, word in sorted(_words(nest, 1), key=lambda found: found[0]):
            repeat = find_repeat(one.lane.sequence, word)
            if repeat.pattern not in seen and len(seen) < MAX_LOOPS:
                seen.add(repeat.pattern)
                frames.append(_runs(one.lane, level, repeat.pattern, repeat.first, repeat.stop))
    lane = ["gpu", "pid", "context_id", "stream_id"]
    return pl.concat(frames).sort(*lane, "level", "start_ns", "turn", maintain_order=True)


def _words(
    nest: Nest, level: int
) -> Iterator[tuple[int, np.ndarray[tuple[int], np.dtype[np.int32]]]]:
    for part in nest:
        if isinstance(part, Repeated):
            yield level, np.array(nest_symbols(part.body), np.int32)
            yield from _words(part.body, level + 1)


def _runs(
    lane: Lane,
    level: int,
    pattern: str,
    first: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> pl.DataFrame:
    """The loops that a body's occurrences make, and their turns."""
    if len(first) == 0:
        return pl.DataFrame(schema=SCHEMA)
    reach = np.maximum.accumulate(lane.sequence.end_ns)
    run = np.cumsum(np.r_[True, first[1:] != stop[:-1]])
    turns = pl.DataFrame(
        {
            "run": run,
            "length": stop - first,
            "start_ns": lane.sequence.start_ns[first],
            "end_ns": reach[stop - 1],
        }
    ).with_columns(
        pl.int_range(pl.len()).over("run").alias("turn"),
        pl.len().over("run").cast(pl.Int64).alias("times"),
    )
    turns = turns.filter(pl.col("times") > 1)
    loops = turns.group_by("run", maintain_order=True).agg(
        pl.col("length", "times").first(), pl.col("start_ns").min(), pl.col("end_ns").max()
    )
    rows = pl.concat([loops, turns.filter(pl.col("length") > 1)], how="diagonal")
    return rows.select(
        gpu=pl.lit(lane.gpu, pl.Int64),
        pid=pl.lit(lane.pid, pl.Int64),
        context_id=pl.lit(lane.context_id, pl.Int64),
        stream_id=pl.lit(lane.stream_id, pl.Int64),
        level=pl.lit(level, pl.Int64),
        pattern=pl.lit(pattern),
        length="length",
        times="times",
        turn="turn",
        start_ns="start_ns",
        end_ns="end_ns",
    )
