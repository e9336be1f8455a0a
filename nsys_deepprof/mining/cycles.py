# ruff: noqa: PLR0917 - compiled loops take their arrays by position
"""One level followed through the sequence: a template turn, and where in it every operation is.

The windows that occur once a turn are the anchors. One turn, the one with the most of them, is
the template. A chain of anchor hits that visits the template in order, turn after turn, is found
by dynamic programming, so that a hit out of order (a kernel that noise put there) is left out and
a turn may lack anchors, repeat inner parts more or less often, or have foreign work before it.
Only order counts: turns need not be of equal length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .jit import compiled
from .levels import WINDOW_LENGTHS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .levels import Level, Windows

# A window is an anchor where it occurs exactly once in this share of the turns.
ANCHOR_SHARE = 0.6
# A symbol belongs to a level where it occurs in this share of the turns.
PRESENT_SHARE = 0.75
# What a skipped anchor costs in a chain, where a hit gains one.
SKIP_COST = 1.0
# What it costs that two neighbours of a chain lie further apart than in the template. Enough that
# a stray hit ahead of the chain does not pay, where anchors are many; inner loops and foreign
# work may do it between any two.
STRETCH_COST = 1.0
STRETCH_ANCHORS = 8
# No link of a chain costs more: one edit spoils all windows over it, an inner loop with fewer turns
# lacks many anchors. A stray hit needs two links, and still never pays.
MAX_LINK_COST = 2.5
LOOK_BACK = 24
# What it costs to go on anywhere else: the chain crosses foreign work of any length.
RESTART_COST = 8.0
CHANCE = 20.0


@dataclass(frozen=True, slots=True)
class Cycle:
    """A level's chain.

    `template_start` and `period`: the template is that slice of the sequence. `anchors` are the
    template offsets with an anchor. `position[h]` is the operation of the `h`-th hit of the chain
    and `phase[h]` its place in the unrolled template: turn times `period` plus offset.
    `skipped[h]` counts the anchors left out between hit `h - 1` and hit `h`.
    `kind[i]` is operation `i` with the one after it, as one of the `kinds` different pairs of the
    template, or -1 where the template has no such pair. `alike[i]`: operation `i` begins or ends a
    window that the template has, one so long that few are there by chance.
    """

    template_start: int
    period: int
    anchors: NDArray[np.int64]
    position: NDArray[np.int64]
    phase: NDArray[np.int64]
    skipped: NDArray[np.int64]
    kind: NDArray[np.int32]
    kinds: int
    alike: NDArray[np.bool_]


# The columns of a cycle that are as long as its chain or its sequence.
HIT_COLUMNS = ("position", "phase", "skipped", "kind", "alike")


def present_symbols(windows: Windows, level: Level) -> NDArray[np.bool_]:
    """Per symbol: does it occur in (nearly) every turn of a level?"""
    symbols = int(windows.base[1])
    seen, present = np.full(symbols, -1, np.int32), np.zeros(symbols, np.int32)
    row = windows.codes[level.row]
    _count_present(row, level.code, windows.symbols, level.count - 1, seen, present)
    return present >= PRESENT_SHARE * (level.count - 1)


def follow(windows: Windows, level: Level, *, min_alike: float = 0.0) -> Cycle | None:
    """The chain of one level; None where no turn of it can serve as a template.

    None also where less than `min_alike` of the operations from the level's first window to its
    last lie in windows that are in a turn of usual length: the turns have nothing in common.
    """
    marks = np.flatnonzero(windows.codes[level.row] == level.code)
    lengths = np.diff(marks)
    middle = int(np.argmin(np.abs(lengths - np.median(lengths))))
    usual = int(lengths[middle])
    alike = _alike(windows, int(marks[middle]), usual)
    elsewhere = int(marks[-1] - marks[0]) - usual
    if alike[marks[0] : marks[-1]].sum() - usual < min_alike * elsewhere:
        return None

    turn, turns = _turns(windows, level), level.count - 1
    state, once = np.full(windows.groups, -1, np.int32), np.zeros(windows.groups, np.int32)
    for code in windows.codes:
        _count_once(code, turn, turns, state, once)
    is_anchor = once >= max(1.0, ANCHOR_SHARE * turns)
    rich = np.zeros(turns, np.int64)
    _count_anchored(turn, windows.codes, turns, is_anchor, rich)
    best = int(np.argmax(rich - np.abs(lengths - np.median(lengths))))
    start, period = int(marks[best]), int(lengths[best])

    lookup = np.full(windows.groups, -1, np.int32)
    for code in windows.codes:
        _number_anchors(code, start, period, is_anchor, lookup)
    offset = np.full(len(turn), -1, np.int32)
    _find_hits(offset, windows.codes, lookup)
    hits = np.flatnonzero(offset >= 0)
    if not len(hits):
        return None
    offset = offset[hits]
    used = np.zeros(period, np.bool_)
    used[offset] = True
    anchors = np.flatnonzero(used)
    rank = (np.cumsum(used, dtype=np.int32) - np.int32(1))[offset]
    kept, skipped, restarted = _chain(hits, offset, rank, period)
    position = hits[kept]
    step = offset[kept].astype(np.int64)
    late = np.diff(position) > np.diff(step) + period // 2
    wrapped = np.r_[False, (step[1:] <= step[:-1]) | (restarted[1:] & late)]
    phase = step + np.cumsum(wrapped) * period
    kind, kinds = _template_codes(windows, min(1, period - 1), start, period)
    if best != middle:
        alike = _alike(windows, start, period)
    return Cycle(start, period, anchors, position, phase, skipped, kind, kinds, alike)


def _alike(windows: Windows, start: int, period: int) -> NDArray[np.bool_]:
    """Per operation: does it begin or end a window of the template?

    The windows are so long that few of the template's are elsewhere by chance.
    """
    needed = math.log(CHANCE * period) / max(windows.entropy, 1e-9)
    usable = [k for k in WINDOW_LENGTHS if k <= 2 * period]
    length = min((k for k in usable if k >= needed), default=min(8, usable[-1]))
    row = WINDOW_LENGTHS.index(length)
    begins = _template_codes(windows, row, start, period)[0] >= 0
    alike = begins.copy()
    # Windows as long as the template's may be longer than the whole sequence.
    alike[length - 1 :] |= begins[: max(len(begins) - length + 1, 0)]
    return alike


def _template_codes(
    windows: Windows, row: int, start: int, period: int
) -> tuple[NDArray[np.int32], int]:
    """A row's codes renumbered over the template, -1 for those that it lacks, and how many."""
    low, high = int(windows.base[row]), int(windows.base[row + 1])
    known = np.zeros(high - low, np.bool_)
    known[windows.codes[row, start : start + period] - low] = True
    number = np.where(known, np.cumsum(known, dtype=np.int32) - np.int32(1), np.int32(-1))
    return number[windows.codes[row] - np.int32(low)], int(known.sum())


def _turns(windows: Windows, level: Level) -> NDArray[np.int32]:
    """Number of the turn of each position; -1 before the first."""
    return np.cumsum(windows.codes[level.row] == level.code, dtype=np.int32) - np.int32(1)


@compiled
def _count_present(
    row: NDArray[np.int32],
    mark: int,
    codes: NDArray[np.int32],
    turns: int,
    seen: NDArray[np.int32],
    present: NDArray[np.int32],
) -> None:
    """In how many turns each code is; a turn begins where `row` has the mark.

    What follows the last mark is not a whole turn.
    """
    now = -1
    for i in range(len(row)):
        if row[i] == mark:
            now += 1
            if now == turns:
                break
        if now >= 0 and seen[codes[i]] != now:
            seen[codes[i]] = now
            present[codes[i]] += 1


@compiled
def _count_once(
    codes: NDArray[np.int32],
    turn: NDArray[np.int32],
    turns: int,
    state: NDArray[np.int32],
    once: NDArray[np.int32],
) -> None:
    """In how many turns each code occurs exactly once.

    `state` is the last turn of each code, negative (-2 - turn) where it was there more than once.
    """
    for i in range(len(codes)):
        now = turn[i]
        if now < 0 or now >= turns:
            continue
        code = codes[i]
        if state[code] == now:
            state[code] = -2 - now
            once[code] -= 1
        elif state[code] != -2 - now:
            state[code] = now
            once[code] += 1


@compiled
def _count_anchored(
    turn: NDArray[np.int32],
    codes: NDArray[np.int32],
    turns: int,
    is_anchor: NDArray[np.bool_],
    count: NDArray[np.int64],
) -> None:
    """Operations of each turn at which any anchor begins."""
    for i in range(len(turn)):
        if 0 <= turn[i] < turns:
            for row in range(len(codes)):
                if is_anchor[codes[row, i]]:
                    count[turn[i]] += 1
                    break


@compiled
def _number_anchors(
    codes: NDArray[np.int32],
    start: int,
    period: int,
    is_anchor: NDArray[np.bool_],
    lookup: NDArray[np.int32],
) -> None:
    """The template offset of each anchor that is in the template once; -1 for all others."""
    for i in range(start, start + period):
        code = codes[i]
        if is_anchor[code]:
            lookup[code] = i - start if lookup[code] == -1 else -2
    for i in range(start, start + period):
        if lookup[codes[i]] == -2:
            lookup[codes[i]] = -1


@compiled
def _find_hits(
    offset: NDArray[np.int32], codes: NDArray[np.int32], lookup: NDArray[np.int32]
) -> None:
    """The template offset of the shortest anchor at each operation: noise spoils fewest of them."""
    for i in range(len(offset)):
        for row in range(len(codes)):
            found = lookup[codes[row, i]]
            if found >= 0:
                offset[i] = found
                break


def _chain(
    position: NDArray[np.int64], offset: NDArray[np.int32], rank: NDArray[np.int32], period: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The best chain through hits, given by place, template offset and rank of their anchor.

    Returns the indices of its hits, the anchors skipped before each, and where it starts afresh.
    """
    anchors = int(rank.max()) + 1
    stretch_cost = STRETCH_COST * min(1.0, (anchors - 1) / STRETCH_ANCHORS)
    back = np.full(len(rank), -1, np.int64)
    afresh = np.zeros(len(rank), np.bool_)
    end = _score_chain(
        position,
        offset,
        rank,
        anchors,
        period,
        SKIP_COST,
        MAX_LINK_COST,
        RESTART_COST,
        stretch_cost,
        LOOK_BACK,
        back,
        afresh,
    )
    # The chain is known from its end: `back` is filled with it, and its own links are read first.
    kept = back[_walk_back(back, end) :]
    along = rank[kept]
    skipped = np.zeros(len(kept), np.int64)
    np.subtract(along[1:], along[:-1], out=skipped[1:])
    skipped[1:] -= 1
    skipped[1:] %= anchors
    return kept, skipped, afresh[kept]


@compiled
def _score_chain(
    position: NDArray[np.int64],
    offset: NDArray[np.int32],
    rank: NDArray[np.int32],
    anchors: int,
    period: int,
    skip_cost: float,
    max_link_cost: float,
    restart_cost: float,
    stretch_cost: float,
    look_back: int,
    back: NDArray[np.int64],
    afresh: NDArray[np.bool_],
) -> int:
    size = len(rank)
    best_of_rank = np.full(anchors, -1, np.int64)
    score = np.empty(size, np.float64)
    restart_cost = min(restart_cost, skip_cost * anchors)
    best_end = 0
    for h in range(size):
        gain = 0.0
        if h:
            apart = (offset[h] - offset[h - 1] - 1) % period + 1
            if (
                best_end == h - 1
                and (rank[h] - rank[h - 1] - 1) % anchors == 0
                and position[h] - position[h - 1] == apart
            ):
                # Nothing can be better than the best so far without a cost.
                gain, back[h] = score[h - 1], h - 1
            else:
                restarted = score[best_end] - restart_cost
                if restarted > 0.0:
                    gain, back[h], afresh[h] = restarted, best_end, True
                # The neighbours before it, and from any distance its predecessor in the template.
                predecessor = best_of_rank[(rank[h] - 1) % anchors]
                nearest = max(-1, h - 1 - look_back)
                for near in range(h - 1, nearest - 1, -1):
                    j = near if near > nearest else predecessor
                    if j < 0:
                        continue
                    step = (rank[h] - rank[j] - 1) % anchors
                    apart = (offset[h] - offset[j] - 1) % period + 1
                    stretch = abs(position[h] - position[j] - apart)
                    cost = skip_cost * step
                    if stretch > 2 + apart // 16:
                        cost += stretch_cost
                    candidate = score[j] - min(cost, max_link_cost)
                    if candidate > gain:
                        gain, back[h], afresh[h] = candidate, j, False
        score[h] = gain + 1.0
        best = best_of_rank[rank[h]]
        if best < 0 or score[h] >= score[best]:
            best_of_rank[rank[h]] = h
        if score[h] >= score[best_end]:
            best_end = h
    return best_end


@compiled
def _walk_back(back: NDArray[np.int64], end: int) -> int:
    """Write the chain that ends at hit `end` over the end of `back`; the place where it begins.

    A hit's link points to one before it, so that what is written over has been read.
    """
    place = len(back)
    h = end
    while h >= 0:
        earlier = back[h]
        place -= 1
        back[place] = h
        h = earlier
    return place
