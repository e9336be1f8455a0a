"""Which of a lane's loops is the iteration: the outermost one that explains at least half of it.

From the most frequent level to the rarest, a loop that explains half of the lane's time is taken;
a rarer one replaces it where it adds work of its own kind: an optimizer after the micro-steps, an
embedding and a head around the layers. It does not where what it adds is the same work again, as an
evaluation pass after every tenth iteration is: that is foreign work between iterations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .cycles import HIT_COLUMNS, Cycle, follow, present_symbols
from .levels import find_levels, find_windows
from .sequence import make_sequence
from .suffix_tree import suffix_array
from .turns import Turns, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .levels import Level, Windows
    from .sequence import Sequence

# An iteration explains at least this share of its lane's time.
MIN_SHARE = 0.5
# ... and is at least this share of the operations from its first turn to its last.
MIN_DENSITY = 0.5
# ... and at least this share of all operations: one long wait can be half of the time.
MIN_OPERATIONS = 0.2
# A level is followed where this share of the operations is like a turn of it; less will do where
# loops are wanted that explain little.
MIN_ALIKE = 0.1
MIN_ALIKE_ANY = 0.02
# An outer loop has to add this share of operations, or of time, that the inner one lacks ...
MIN_ADDED = 0.001
# ... and they have to be this share of all that it adds; or less, where it adds a trifle.
MIN_NOVEL = 0.5
TRIFLE_SHARE = 0.2
TRIFLE_NOVEL = 0.1
# With two turns only, nothing but the whole lane will do.
PAIR_SHARE = 0.8
# Another loop with as many turns beside it, of at least this share of the lane: the two are the
# layers of one pass, forward and backward, and not iterations.
SIBLING_SHARE = 0.1
SIBLING_TURNS = 4
# A loop body that has its own optimizer, in so many of its turns, is a whole training step.
OPTIMIZER_SHARE = 0.8
OPTIMIZER = re.compile(
    r"multi_tensor_apply|fused_?adam|adam_|sgd_|lamb_|adagrad|rmsprop|optimizer|"
    r"(?:adam|lamb|sgd|momentum|weight_?update)\w*(?:kernel|functor)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a lane: its chain, its turns, and the share of the lane's time in them.

    `density` is the share of the operations from the first turn to the last that are in turns.
    """

    cycle: Cycle
    turns: Turns
    share: float
    density: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The iteration of a lane, or why it has none, with the loops that there are.

    The chains of `loops` have no hits, only their template: they can be as long as the lane.
    """

    iteration: Loop | None
    loops: tuple[Loop, ...]
    reason: str


def choose(sequence: Sequence, *, unit: int | None = None) -> Choice:
    """Find the loops of a lane and pick the iteration.

    `unit` asks for another level of the nest: the loop whose body is nearest to so many
    operations, whatever share of the lane it explains.
    """
    if len(sequence) < 2:
        return Choice(None, (), "fewer than two operations")
    windows = find_windows(suffix_array(sequence.symbols), sequence.symbols)
    levels = find_levels(windows)
    if not levels:
        return Choice(None, (), "no operation occurs twice")
    if unit is not None:
        return _choose_unit(sequence, windows, levels, unit)
    loops: list[Loop] = []
    chosen: Loop | None = None
    for loop in _loops(sequence, windows, levels, MIN_SHARE):
        loops.append(_without_hits(loop))
        if not _can_be_iteration(sequence, loop):
            continue
        if chosen is None or _replaces(sequence, windows, chosen, loop):
            chosen = loop
            if not _has_gaps(sequence, loop):
                # Rarer loops have nothing to add.
                break
    if chosen is None:
        rest = _ranked([_without_hits(loop) for loop in _loops(sequence, windows, levels, 0.0)])
        return Choice(None, rest, _why_none(rest))
    sibling = _sibling(sequence, chosen)
    if sibling is not None:
        reason = (
            "the longest repeats are parts of one pass: two different loops of equally many turns"
        )
        both = [_without_hits(chosen), _without_hits(sibling)]
        return Choice(None, _ranked(both), reason)
    return Choice(chosen, _ranked(loops), "")


def _without_hits(loop: Loop) -> Loop:
    cycle = loop.cycle
    empty = {name: getattr(cycle, name)[:0].copy() for name in HIT_COLUMNS}
    return replace(loop, cycle=replace(cycle, **empty))


def _why_none(loops: tuple[Loop, ...]) -> str:
    if not any(loop.share >= MIN_SHARE for loop in loops):
        return "no repeat explains half of the lane's time"
    return "what repeats for half of the lane's time are a few operations among many others"


def _can_be_iteration(sequence: Sequence, loop: Loop) -> bool:
    operations = int((loop.turns.stop - loop.turns.first).sum())
    return (
        loop.share >= (MIN_SHARE if len(loop.turns) > 2 else PAIR_SHARE)
        and loop.density >= MIN_DENSITY
        and operations >= MIN_OPERATIONS * len(sequence)
    )


def _has_gaps(sequence: Sequence, loop: Loop) -> bool:
    """Is there enough between the turns that an outer loop could add it?"""
    first, stop = int(loop.turns.first[0]), int(loop.turns.stop[-1])
    outside = ~_inside(len(sequence), loop.turns)
    outside[:first] = False
    outside[stop:] = False
    duration = (sequence.end_ns - sequence.start_ns)[outside]
    return bool(
        outside.sum() >= MIN_ADDED * len(sequence)
        or duration.sum() >= MIN_ADDED * max(1, sequence.busy_ns)
    )


def _ranked(loops: list[Loop]) -> tuple[Loop, ...]:
    """One of each loop, those that explain most first.

    A loop is found at several levels, through windows that noise spoils to different degrees.
    """
    kept: list[Loop] = []
    for loop in sorted(loops, key=lambda loop: -loop.share):
        period, turns = loop.cycle.period, len(loop.turns)
        if not any(
            0.8 <= period / other.cycle.period <= 1.25 and 0.5 <= turns / len(other.turns) <= 2
            for other in kept
        ):
            kept.append(loop)
    return tuple(kept)


def _loops(
    sequence: Sequence, windows: Windows, levels: list[Level], min_share: float
) -> Iterator[Loop]:
    """The loops at all levels whose operations can make up `min_share` of the lane's time."""
    busy = np.r_[0, np.cumsum(sequence.end_ns - sequence.start_ns)]
    # Zero-length operations count too, so that a lane of nothing else has shares.
    weight = busy + np.arange(len(busy)) / len(busy)
    time_of = np.bincount(sequence.symbols, weights=np.diff(weight))
    min_alike = MIN_ALIKE if min_share else MIN_ALIKE_ANY
    for level in levels:
        present = present_symbols(windows, level)
        if time_of[present].sum() < min_share * weight[-1]:
            continue
        cycle = follow(windows, level, min_alike=min_alike)
        if cycle is None:
            continue
        turns = cut(sequence, cycle)
        if len(turns) < 2:
            continue
        share = float((weight[turns.stop] - weight[turns.first]).sum() / weight[-1])
        density = (turns.stop - turns.first).sum() / (turns.stop[-1] - turns.first[0])
        yield Loop(cycle, turns, share, float(density))


def _replaces(sequence: Sequence, windows: Windows, inner: Loop, outer: Loop) -> bool:
    """Is the rarer loop the iteration rather than the one found before it?"""
    before, now = len(inner.turns), len(outer.turns)
    low, high = sorted((inner.cycle.period, outer.cycle.period))
    # The same level, seen through another window: take the view that loses fewer turns, and of
    # such the one that knows more of them.
    if high <= 1.25 * low and 0.5 * before <= now <= 2 * before:
        if abs(now - before) > 0.02 * before:
            return now > before
        return _agreement(outer) > _agreement(inner)
    if _agreement(outer) <= _agreement(inner):
        return False
    # As many turns as before, or more, is no outer loop: it is the better view of this level.
    if now >= 0.8 * before:
        return True
    if len(outer.turns) < 3 and outer.share < PAIR_SHARE:
        return False
    inside = _inside(len(sequence), inner.turns)
    within = _inside(len(sequence), outer.turns)
    added = within & ~inside
    known = added & _usual(windows.pairs, inside, added, len(inner.turns))
    # What outer turns do not usually have either is noise, and counts neither way.
    novel = added & ~known & _usual(windows.pairs, within, added, len(outer.turns))
    duration = sequence.end_ns - sequence.start_ns
    enough = max(
        float(novel.sum()) / len(sequence),
        float(duration[novel].sum()) / max(1, sequence.busy_ns),
    )
    trifle = added.sum() <= TRIFLE_SHARE * inner.cycle.period * len(outer.turns)
    needed = TRIFLE_NOVEL if trifle else MIN_NOVEL
    if enough < MIN_ADDED or novel.sum() < needed * (novel.sum() + known.sum()):
        return False
    count = np.bincount(sequence.symbols[inside])
    body = np.flatnonzero(count >= OPTIMIZER_SHARE * len(inner.turns))
    return not any(OPTIMIZER.search(sequence.names[code]) for code in body.tolist())


def _agreement(loop: Loop) -> int:
    """Operations in the turns that the template knows, less those that it does not."""
    known = np.r_[0, np.cumsum(np.where(loop.cycle.alike, 1, -1))]
    return int((known[loop.turns.stop] - known[loop.turns.first]).sum())


def _inside(size: int, turns: Turns) -> NDArray[np.bool_]:
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, turns.first, 1)
    np.add.at(edges, turns.stop, -1)
    return np.cumsum(edges[:-1]) > 0


def _usual(
    pairs: NDArray[np.int32], inside: NDArray[np.bool_], asked: NDArray[np.bool_], turns: int
) -> NDArray[np.bool_]:
    """Per operation asked about: does it, with the next one, occur in about every turn?"""
    groups = int(pairs.max()) + 1
    count = np.bincount(pairs[inside], minlength=groups)
    result = np.zeros(len(pairs), bool)
    result[asked] = count[pairs[asked]] >= 0.5 * turns
    return result


def _sibling(sequence: Sequence, loop: Loop) -> Loop | None:
    """Another loop with as many turns, before or after this one."""
    turns = len(loop.turns)
    if turns < SIBLING_TURNS or loop.share > 1 - SIBLING_SHARE:
        return None
    for low, high in (
        (0, int(loop.turns.first[0])),
        (int(loop.turns.stop[-1]), len(sequence)),
    ):
        part = slice_sequence(sequence, low, high)
        scale = part.busy_ns / max(1, sequence.busy_ns)
        if len(part) < 2 or scale < SIBLING_SHARE:
            continue
        windows = find_windows(suffix_array(part.symbols), part.symbols)
        for other in _loops(part, windows, find_levels(windows), SIBLING_SHARE):
            if abs(len(other.turns) - turns) <= 1 and other.share * scale >= SIBLING_SHARE:
                return shift_loop(other, low, other.share * scale)
    return None


def slice_sequence(sequence: Sequence, low: int, high: int) -> Sequence:
    """A part of a sequence as a sequence of its own."""
    return make_sequence(
        sequence.symbols[low:high],
        sequence.start_ns[low:high],
        sequence.end_ns[low:high],
        sequence.names,
    )


def shift_loop(loop: Loop, by: int, share: float) -> Loop:
    """A loop found in a part of a lane, in the lane's own positions."""
    cycle = replace(
        loop.cycle,
        template_start=loop.cycle.template_start + by,
        position=loop.cycle.position + by,
    )
    turns = replace(loop.turns, first=loop.turns.first + by, stop=loop.turns.stop + by)
    return Loop(cycle, turns, share, loop.density)


def _choose_unit(sequence: Sequence, windows: Windows, levels: list[Level], unit: int) -> Choice:
    loops = list(_loops(sequence, windows, levels, 0.0))
    if not loops:
        return Choice(None, (), "no loop found")
    nearest = min(loops, key=lambda loop: (abs(np.log(loop.cycle.period / unit)), -loop.share))
    return Choice(nearest, _ranked([_without_hits(loop) for loop in loops]), "")
