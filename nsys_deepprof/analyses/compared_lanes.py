"""Lanes of two runs paired, with iterations that are cut at the same place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from nsys_deepprof.analyses.mined import main_lanes, mined
from nsys_deepprof.comparison.bodies import Columns, best_rotation, lay_out
from nsys_deepprof.comparison.names import Pair, pair_names
from nsys_deepprof.mining.identity import pattern_id
from nsys_deepprof.mining.iterations import Iterations, describe, find_iterations, recut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsys_deepprof.analyses.lanes import Lane
    from nsys_deepprof.analyses.mined import Mined
    from nsys_deepprof.mining.choice import Choice
    from nsys_deepprof.trace import Trace

MIN_SIMILARITY = 0.6
"""Bodies of which a smaller share is equal are not the same work."""
SURE_SIMILARITY = 0.9
"""Below, other levels of the loop nests are tried: they may be more alike."""

Basis = Literal["iteration", "loop"]


@dataclass(frozen=True)
class Compared:
    """The same work in a lane of each run.

    `a_found` and `b_found` begin at the same place of the body; `columns` has their places side by
    side. `basis` says whether they are iterations of both lanes, or a loop that both have.
    `rotated`: run B had to be cut elsewhere than where its own iterations begin.
    """

    a_lane: Lane
    b_lane: Lane
    a_found: Iterations
    b_found: Iterations
    columns: Columns
    basis: Basis
    rotated: bool
    pattern_a: str
    pattern_b: str


def pair_gpus(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """GPUs of two runs that stand for each other: those of the same number, or, where the runs
    have equally many and no number in common, in order."""
    common = sorted(set(a) & set(b))
    if common or len(a) != len(b):
        return [(gpu, gpu) for gpu in common]
    return list(zip(sorted(a), sorted(b), strict=True))


def pair_lanes(
    a: Trace, b: Trace, gpus: Sequence[tuple[int, int]]
) -> list[tuple[Mined | None, Mined | None]]:
    """Per pair of GPUs the lanes that stand for each other, one a process; a lane without a
    partner stands alone. Lanes without iterations are there too: the busiest of the GPU."""
    paired: list[tuple[Mined | None, Mined | None]] = []
    for gpu_a, gpu_b in gpus:
        mine, theirs = _lanes_of(a, gpu_a), _lanes_of(b, gpu_b)
        left = list(theirs)
        alone: list[Mined] = []
        for one in mine:
            same = next((other for other in left if _pattern(other) == _pattern(one)), None)
            if same is None:
                alone.append(one)
            else:
                left.remove(same)
                paired.append((one, same))
        size = max(len(alone), len(left))
        paired += [
            (alone[i] if i < len(alone) else None, left[i] if i < len(left) else None)
            for i in range(size)
        ]
    return paired


def compare_lanes(a: Mined, b: Mined) -> Compared | None:
    """The iterations of two lanes at the same cut, or a loop that both have; None where neither.

    Where the bodies differ too much, each side is asked for the level of its loop nest that is
    nearest to the other's body: one run's step may be two of the other's.
    """
    candidates: list[Compared] = []
    if a.found is not None and b.found is not None:
        candidates += _listed(at_one_cut(a.lane, a.found, b.lane, b.found, "iteration"))
    if not candidates or candidates[0].columns.similarity < SURE_SIMILARITY:
        if a.found is not None:
            other, _ = find_iterations(b.lane.sequence, unit=len(a.found.body))
            if other is not None:
                candidates += _listed(at_one_cut(a.lane, a.found, b.lane, other, "iteration"))
        if b.found is not None:
            other, _ = find_iterations(a.lane.sequence, unit=len(b.found.body))
            if other is not None:
                candidates += _listed(at_one_cut(a.lane, other, b.lane, b.found, "iteration"))
    if candidates:
        return max(candidates, key=lambda c: c.columns.similarity)
    loops_a, loops_b = _loops(a.lane, a.choice), _loops(b.lane, b.choice)
    common = [name for name in loops_a if name in loops_b]
    if not common:
        return None
    chosen = max(common, key=lambda name: loops_a[name].loop.share + loops_b[name].loop.share)
    return at_one_cut(a.lane, loops_a[chosen], b.lane, loops_b[chosen], "loop")


def name_pairs(a: Lane, b: Lane) -> list[Pair]:
    """Kernel names of two lanes, paired."""
    return pair_names(_by_first_run(a), _by_first_run(b))


def _lanes_of(trace: Trace, gpu: int) -> list[Mined]:
    every = [m for m in mined(trace) if m.lane.gpu == gpu]
    chosen = main_lanes(every)
    has = {m.lane.global_pid for m in chosen}
    rest: dict[int | None, Mined] = {}
    for one in every:
        held = rest.get(one.lane.global_pid)
        if one.lane.global_pid not in has and (
            held is None or one.lane.compute_ns > held.lane.compute_ns
        ):
            rest[one.lane.global_pid] = one
    return chosen + list(rest.values())


def _pattern(one: Mined) -> str | None:
    return None if one.found is None else pattern_id(one.found.body, one.lane.sequence.names)


def _by_first_run(lane: Lane) -> list[str]:
    codes, first = np.unique(lane.sequence.symbols, return_index=True)
    return [lane.sequence.names[code] for code in codes[np.argsort(first)].tolist()]


def at_one_cut(
    a_lane: Lane, a: Iterations, b_lane: Lane, b: Iterations, basis: Basis
) -> Compared | None:
    """The iterations of lane B cut where those of lane A are; None where the bodies differ."""
    codes = _common_codes(a_lane, b_lane)
    turn = best_rotation(a.body, codes[b.body])
    rotated = turn != 0
    if rotated:
        b = recut(b_lane.sequence, b, turn)
    columns = lay_out(a.body, codes[b.body])
    if columns.similarity < MIN_SIMILARITY:
        return None
    return Compared(
        a_lane,
        b_lane,
        a,
        b,
        columns,
        basis,
        rotated,
        pattern_id(a.body, a_lane.sequence.names),
        pattern_id(b.body, b_lane.sequence.names),
    )


def _common_codes(a: Lane, b: Lane) -> NDArray[np.int32]:
    """Per symbol of lane B the symbol of lane A that is the same work, or one that A lacks."""
    of_a = {name: code for code, name in enumerate(a.sequence.names)}
    partner = {pair.b: pair.a for pair in name_pairs(a, b) if pair.a is not None}
    beyond = len(a.sequence.names)
    return np.array(
        [
            of_a[partner[name]] if name in partner else beyond + code
            for code, name in enumerate(b.sequence.names)
        ],
        np.int32,
    )


def _loops(lane: Lane, choice: Choice) -> dict[str, Iterations]:
    found = (describe(lane.sequence, loop) for loop in choice.loops if len(loop.turns) >= 2)
    return {pattern_id(one.body, lane.sequence.names): one for one in found}


def _listed(one: Compared | None) -> list[Compared]:
    return [] if one is None else [one]
