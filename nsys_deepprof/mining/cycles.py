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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .levels import Level

# A window is an anchor where it occurs exactly once in this share of the turns.
ANCHOR_SHARE = 0.6
# A symbol belongs to a level where it occurs in this share of the turns.
PRESENT_SHARE = 0.75
# What skipped anchors cost in a chain, where a hit gains one: a stray hit never pays. One edit
# spoils all windows over it, so that many anchors in a row are missed for about one reason.
SKIP_COST = 1.0
SKIP_ROW_COST = 2.0
SKIP_ROW_SHARE = 0.125
# What it costs that two neighbours of a chain lie further apart than in the template. Enough that
# a stray hit ahead of the chain does not pay, where anchors are many; inner loops and foreign
# work may do it between any two.
STRETCH_COST = 1.0
STRETCH_ANCHORS = 8
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


def present_symbols(
    symbols: NDArray[np.int32], codes: NDArray[np.int32], level: Level
) -> NDArray[np.bool_]:
    """Per symbol: does it occur in (nearly) every turn of a level?"""
    turn = _turns(codes, level)
    once, present = _per_turn(symbols, turn, level.count - 1, int(symbols.max()) + 1)
    del once
    return present >= PRESENT_SHARE * (level.count - 1)


def follow(codes: dict[int, NDArray[np.int32]], level: Level) -> Cycle | None:
    """The chain of one level; None where no turn of it can serve as a template."""
    turns = level.count - 1
    turn = _turns(codes[level.length], level)
    marks = np.flatnonzero(codes[level.length] == level.code)
    masks = {}
    anchored = np.zeros(len(turn), bool)
    for length, code in codes.items():
        once, _ = _per_turn(code, turn, turns, int(code.max()) + 1)
        masks[length] = once >= max(1.0, ANCHOR_SHARE * turns)
        anchored |= masks[length][code]
    lengths = np.diff(marks)
    inside = anchored & (turn >= 0) & (turn < turns)
    richness = np.bincount(turn[inside], minlength=turns) - np.abs(lengths - np.median(lengths))
    best = int(np.argmax(richness))
    start, period = int(marks[best]), int(lengths[best])

    offset = np.full(len(turn), -1, np.int32)
    for length in sorted(codes, reverse=True):
        code = codes[length]
        here = code[start : start + period]
        unique, index, count = np.unique(here, return_index=True, return_counts=True)
        chosen = masks[length][unique] & (count == 1)
        lookup = np.full(len(masks[length]), -1, np.int32)
        lookup[unique[chosen]] = index[chosen]
        found = lookup[code]
        # Shorter windows, met later in this loop, win: noise spoils fewer of them.
        offset = np.where(found >= 0, found, offset)
    hits = np.flatnonzero(offset >= 0)
    anchors, rank = np.unique(offset[hits], return_inverse=True)
    if not len(hits):
        return None
    kept, skipped, restarted = _chain(hits, offset[hits], rank.astype(np.int32), period)
    position = hits[kept]
    step = offset[position].astype(np.int64)
    late = np.diff(position) > np.diff(step) + period // 2
    wrapped = np.r_[False, (step[1:] <= step[:-1]) | (restarted[1:] & late)]
    phase = step + np.cumsum(wrapped) * period
    kind, kinds, alike = _compare_windows(codes, start, period)
    return Cycle(
        start, period, anchors.astype(np.int64), position, phase, skipped, kind, kinds, alike
    )


def _compare_windows(
    codes: dict[int, NDArray[np.int32]], start: int, period: int
) -> tuple[NDArray[np.int32], int, NDArray[np.bool_]]:
    """`kind`, `kinds` and `alike` of a `Cycle`."""
    share = np.bincount(codes[1]) / len(codes[1])
    share = share[share > 0]
    entropy = float(-(share * np.log(share)).sum())
    needed = math.log(CHANCE * period) / max(entropy, 1e-9)
    length = min(
        (k for k in codes if needed <= k <= 2 * period),
        default=max(k for k in codes if k <= min(8, 2 * period)),
    )
    pairs, kinds = _template_codes(codes[min(2, period)], start, period)
    begins = _template_codes(codes[length], start, period)[0] >= 0
    alike = begins.copy()
    alike[length - 1 :] |= begins[: len(begins) - length + 1]
    return pairs, kinds, alike


def _template_codes(
    code: NDArray[np.int32], start: int, period: int
) -> tuple[NDArray[np.int32], int]:
    """Codes renumbered over the template, -1 for those that it lacks, and how many it has."""
    known = np.unique(code[start : start + period])
    lookup = np.full(int(code.max()) + 1, -1, np.int32)
    lookup[known] = np.arange(len(known), dtype=np.int32)
    return lookup[code], len(known)


def _turns(codes: NDArray[np.int32], level: Level) -> NDArray[np.int32]:
    """Number of the turn of each position; -1 before the first."""
    return np.cumsum(codes == level.code, dtype=np.int32) - np.int32(1)


def _per_turn(
    codes: NDArray[np.int32], turn: NDArray[np.int32], turns: int, groups: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Per code: in how many turns it occurs exactly once, and in how many at all.

    What follows the last mark is not a whole turn and is left out.
    """
    once, present = np.zeros(groups, np.int32), np.zeros(groups, np.int32)
    _count_per_turn(codes, turn, turns, once, present)
    return once, present


@compiled
def _count_per_turn(
    codes: NDArray[np.int32],
    turn: NDArray[np.int32],
    turns: int,
    once: NDArray[np.int32],
    present: NDArray[np.int32],
) -> None:
    last_turn = np.full(len(once), -1, np.int32)
    repeated = np.zeros(len(once), np.bool_)
    for i in range(len(codes)):
        now = turn[i]
        if now < 0 or now >= turns:
            continue
        code = codes[i]
        if last_turn[code] != now:
            last_turn[code] = now
            repeated[code] = False
            present[code] += 1
            once[code] += 1
        elif not repeated[code]:
            repeated[code] = True
            once[code] -= 1


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
        SKIP_ROW_COST,
        SKIP_ROW_SHARE,
        RESTART_COST,
        stretch_cost,
        LOOK_BACK,
        back,
        afresh,
    )
    kept = np.empty(len(rank), np.int64)
    size = _walk_back(back, end, kept)
    kept = kept[:size][::-1].copy()
    steps = (rank[kept[1:]].astype(np.int64) - rank[kept[:-1]] - 1) % anchors
    return kept, np.r_[0, steps], afresh[kept]


@compiled
def _score_chain(
    position: NDArray[np.int64],
    offset: NDArray[np.int32],
    rank: NDArray[np.int32],
    anchors: int,
    period: int,
    skip_cost: float,
    row_cost: float,
    row_share: float,
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
                    candidate = score[j] - min(skip_cost * step, row_cost + row_share * step)
                    if stretch > 2 + apart // 16:
                        candidate -= stretch_cost
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
def _walk_back(back: NDArray[np.int64], end: int, kept: NDArray[np.int64]) -> int:
    size = 0
    h = end
    while h >= 0:
        kept[size] = h
        size += 1
        h = back[h]
    return size
