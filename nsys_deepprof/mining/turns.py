# ruff: noqa: PLR0917 - compiled loops take their arrays by position
"""Where a cycle is cut: the place in the template where turns begin, and every turn's extent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .jit import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .cycles import Cycle
    from .sequence import Sequence

# A turn that lacks more of the template is something else: a pass of another kind, a fragment.
COMPLETE_SHARE = 0.6
# A turn of which less than this share is known from the template is something else, too.
ALIKE_SHARE = 0.5
# The repetition is interrupted where this share of the anchors is missing at one place.
BREAK_SHARE = 0.25
# A place where inserted work is as common as this belongs to the turn: an inner loop that varies.
USUAL_SHARE = 0.2
# Cuts that lie closer together than this share of a turn are the same cut.
SAME_CUT_SHARE = 0.01
# Noise can make a beginning look late: the cut is looked for so far around it, and the end of the
# repetition has a say.
REFINE_SHARE = 0.03
END_WEIGHT = 0.5
# A pause tells where turns begin when it is this many times as long as any other in the turn.
PAUSE_RATIO = 1.5
# So many operations of the template's end show that a turn got there.
END_WINDOW = 6
# Interruptions that are looked at, and hits that pauses are measured at.
MAX_BREAKS = 64
MAX_PAUSES = 250_000
EDIT_BAND = 8
EDIT_COST = 2
DROP = 12
EDIT_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Turns:
    """The whole turns of a cycle, in order.

    Turn `t` is the operations `first[t] .. stop[t] - 1`; between `stop[t]` and `first[t + 1]` is
    foreign work, if any. `offset` is the cut in template offsets, and `evidence` what it rests
    on: `start` (the repetition begins there), `whole` (the lane is whole turns from there on),
    `pause` (the longest idle time before it), `lane` (the lane begins there, nothing better).
    `index[t]` is the number of the turn in the chain: a step above one is a turn that is not whole.
    """

    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    index: NDArray[np.int64]
    offset: int
    evidence: str

    def __len__(self) -> int:
        return len(self.first)


def cut(sequence: Sequence, cycle: Cycle, *, offset: int | None = None) -> Turns:
    """The whole turns of a cycle, cut at a template offset, or where the evidence says."""
    template = sequence.symbols[cycle.template_start : cycle.template_start + cycle.period]
    evidence = "given"
    if offset is None:
        offset, evidence = _best_offset(sequence, cycle, template)
    first, stop, reached = _cut_at(sequence.symbols, cycle, template, offset)
    known = np.r_[0, np.cumsum(cycle.alike)]
    alike = known[stop] - known[first] >= ALIKE_SHARE * (stop - first)
    # What the template alone has does not count: it is noise in the template.
    turns_with = np.zeros(cycle.kinds, np.int64)
    kinds = np.zeros(len(first), np.int64)
    counted = np.ones(cycle.kinds, np.bool_)
    _count_kinds(cycle.kind, first, stop, counted, turns_with, kinds)
    counted = turns_with >= USUAL_SHARE * len(first)
    _count_kinds(cycle.kind, first, stop, counted, turns_with, kinds)
    whole = (kinds >= COMPLETE_SHARE * counted.sum()) & reached & alike & (stop > first)
    index = np.flatnonzero(whole)
    return Turns(first[index], stop[index], index, offset, evidence)


def _breaks(cycle: Cycle) -> NDArray[np.bool_]:
    """Per hit: is the repetition interrupted just before it? True for the first."""
    anchors = len(cycle.anchors)
    broken = cycle.skipped > max(2, int(BREAK_SHARE * anchors))
    # Where the template went on although its anchors were missing, nothing was interrupted.
    familiar = np.diff(np.cumsum(cycle.alike)[cycle.position], prepend=0)
    broken &= familiar < 0.5 * np.diff(cycle.phase, prepend=0)
    # Operations in between that the template does not know. An inner loop with more turns than
    # the template's is no interruption.
    strange = np.cumsum(~cycle.alike)[cycle.position]
    large = np.r_[False, np.diff(strange) > max(8.0, BREAK_SHARE * cycle.period)]
    rank = _ranks(cycle)
    seen = np.bincount(rank, minlength=anchors)
    usual = np.bincount(rank[large], minlength=anchors) > USUAL_SHARE * seen
    broken |= large & ~usual[rank]
    broken[0] = True
    return broken


def _ranks(cycle: Cycle) -> NDArray[np.int32]:
    """Per hit, which of the anchors it is."""
    rank_at = np.zeros(cycle.period, np.int32)
    rank_at[cycle.anchors] = np.arange(len(cycle.anchors), dtype=np.int32)
    ranks: NDArray[np.int32] = rank_at[cycle.phase % cycle.period]
    return ranks


def _best_offset(sequence: Sequence, cycle: Cycle, template: NDArray[np.int32]) -> tuple[int, str]:
    period = cycle.period
    tolerance = max(1, int(SAME_CUT_SHARE * period))
    begins: list[Extension] = []
    for h in _spread(np.flatnonzero(_breaks(cycle)), MAX_BREAKS).tolist():
        begin = _extend(sequence.symbols, cycle, template, h, -1, period)
        # Where an extension gets to the hit before it, nothing was interrupted: the anchors are
        # missing, their surroundings are there.
        if not h or begin.reached > cycle.position[h - 1]:
            begins.append(begin)
    offsets = np.array([begin.offset for begin in begins])
    # Nothing shows that what begins with the capture begins there by itself.
    weights = np.array([1.0 if begin.reached > 0 else 0.5 for begin in begins])
    best = _group_votes(offsets, weights, period, tolerance)
    end = _extend(sequence.symbols, cycle, template, len(cycle.position) - 1, 1, period)
    if weights[_distance(offsets, best, period) <= tolerance].sum() >= 1:
        return _refine(best, begins, weights, end, period), "start"
    if _distance(end.offset, best, period) <= tolerance:
        return best, "whole"
    pause = _pause(sequence, cycle)
    return (best, "lane") if pause is None else (pause, "pause")


def _refine(
    best: int, begins: list[Extension], weights: NDArray[np.float64], end: Extension, period: int
) -> int:
    """The cut at or little before `best` that all beginnings, and the end, support most.

    Noise at a beginning stops its extension short; the end, where whole turns end, tells.
    """
    window = max(1, int(REFINE_SHARE * period))
    near = [
        (begin, float(weight))
        for begin, weight in zip(begins, weights, strict=True)
        if _distance(begin.offset, best, period) <= window
    ]
    shifts = range(0, -window - 1, -1)
    support = [
        sum(weight * begin.support(best + shift, period) for begin, weight in near)
        + END_WEIGHT * end.support(best + shift, period)
        for shift in shifts
    ]
    # The first of equal ones is the nearest.
    return (best + shifts[int(np.argmax(support))]) % period


def _spread(values: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """At most `limit` of the values, evenly spread, the first among them."""
    if len(values) <= limit:
        return values
    return values[np.linspace(0, len(values) - 1, limit).astype(np.int64)]


def _distance(a: NDArray[np.int64] | int, b: int, period: int) -> NDArray[np.int64]:
    apart: NDArray[np.int64] = np.abs(np.asarray(a, np.int64) - b) % period
    return np.minimum(apart, period - apart)


def _group_votes(
    offsets: NDArray[np.int64], weights: NDArray[np.float64], period: int, tolerance: int
) -> int:
    """The offset with the most votes near it; of those the one with most itself, then first."""
    unique = np.unique(offsets)
    ranked = [
        (
            float(weights[_distance(offsets, int(o), period) <= tolerance].sum()),
            float(weights[offsets == o].sum()),
            -int(np.flatnonzero(offsets == o)[0]),
            int(o),
        )
        for o in unique
    ]
    return max(ranked)[3]


def _pause(sequence: Sequence, cycle: Cycle) -> int | None:
    """The anchor offset with by far the longest median idle time before it, if there is one."""
    done = np.maximum.accumulate(sequence.end_ns)
    after_first = cycle.position > 0
    at = cycle.position[after_first][:MAX_PAUSES]
    rank = _ranks(cycle)[after_first][:MAX_PAUSES]
    gap = np.maximum(sequence.start_ns[at] - done[at - 1], 0)
    order = np.lexsort((gap, rank))
    size = np.bincount(rank, minlength=len(cycle.anchors))
    middle = np.cumsum(size) - size + np.maximum(size - 1, 0) // 2
    median = np.where(size > 0, gap[order][np.minimum(middle, len(order) - 1)], 0)
    if len(median) < 2:
        return None
    second, top = np.sort(median)[-2:]
    if top == 0 or top < PAUSE_RATIO * second:
        return None
    return int(cycle.anchors[int(np.argmax(median))])


@dataclass(frozen=True, slots=True)
class Extension:
    """How far the sequence goes on like the template beyond a hit, forward or back.

    `steps` and `events` count what it takes of the template and of the sequence up to the best end,
    where `offset` is the cut (between turns) and `reached` the outermost operation. `profile[k]` is
    the score after `k` steps: a match gains one, an edit costs `EDIT_COST`.
    """

    phase: int
    direction: int
    steps: int
    offset: int
    reached: int
    profile: NDArray[np.int64]

    def ragged(self, wanted: int) -> int:
        """Steps more to the end that is wanted, where these hold an edit or two and no more."""
        if self.steps < wanted < len(self.profile) and (
            self.profile[wanted] >= self.profile.max() - EDIT_COST
        ):
            return wanted - self.steps
        return 0

    def support(self, offset: int, period: int) -> float:
        """The score of a turn that begins, or ends, at another cut."""
        apart = self.phase - offset if self.direction < 0 else offset - 1 - self.phase
        step = apart % period
        best = int(self.profile.max())
        if step < len(self.profile):
            return float(self.profile[step])
        # Where the lane ends nothing is known, and little is said against the cut.
        return float(max(best - DROP, int(self.profile[-1]) - (step - len(self.profile) + 1)))


def _extend(
    symbols: NDArray[np.int32],
    cycle: Cycle,
    template: NDArray[np.int32],
    hit: int,
    direction: int,
    limit: int,
) -> Extension:
    """The extension beyond a hit of the chain by at most `limit` steps of the template.

    The search ends where the score is `DROP` below the best.
    """
    position, phase = int(cycle.position[hit]), int(cycle.phase[hit])
    period = cycle.period
    profile = np.zeros(limit + 1, np.int64)
    steps, events, length = _extend_banded(
        symbols,
        template,
        position,
        phase % period,
        direction,
        limit,
        EDIT_BAND,
        EDIT_COST,
        DROP,
        profile,
    )
    offset = phase - steps if direction < 0 else phase + steps + 1
    return Extension(
        phase=phase,
        direction=direction,
        steps=int(steps),
        offset=offset % period,
        reached=position + direction * int(events),
        profile=profile[: int(length)],
    )


@compiled
def _extend_banded(
    symbols: NDArray[np.int32],
    template: NDArray[np.int32],
    position: int,
    offset: int,
    direction: int,
    limit: int,
    band: int,
    cost: int,
    drop: int,
    profile: NDArray[np.int64],
) -> tuple[int, int, int]:
    # Row: template steps taken; column: operations taken minus steps taken, within the band.
    size, period = len(symbols), len(template)
    width = 2 * band + 1
    low = -(1 << 30)
    row = np.full(width, low, np.int64)
    following = np.empty(width, np.int64)
    for c in range(band, width):
        row[c] = -cost * (c - band)
    best, best_steps, best_events = 0, 0, 0
    for step in range(1, limit + 1):
        following[:] = low
        here = template[(offset + direction * step) % period]
        top = low
        for c in range(width):
            event = step + c - band
            at = position + direction * event
            if event < 0 or at < 0 or at >= size:
                continue
            score = low
            if event >= 1:
                matched = row[c] + (1 if symbols[at] == here else -cost)
                score = max(score, matched)
            if c + 1 < width:
                score = max(score, row[c + 1] - cost)
            if c > 0:
                score = max(score, following[c - 1] - cost)
            following[c] = score
            top = max(top, score)
            if score > best:
                best, best_steps, best_events = score, step, event
        if top < best - drop:
            return best_steps, best_events, step
        profile[step] = top
        row, following = following, row
    return best_steps, best_events, limit + 1


def _cut_at(
    symbols: NDArray[np.int32], cycle: Cycle, template: NDArray[np.int32], offset: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """All turns, whole or not: first operation, stop, and whether both ends exist."""
    period = cycle.period
    turn = (cycle.phase - offset) // period
    low, high = int(turn[0]), int(turn[-1])
    count = high - low + 1
    first = np.zeros(count, np.int64)
    stop = np.zeros(count, np.int64)
    reached = np.ones(count, np.bool_)
    tolerance = max(1, int(2 * SAME_CUT_SHARE * period))

    begin = low * period + offset
    steps_wanted = int(cycle.phase[0]) - begin
    head = _extend(symbols, cycle, template, 0, -1, steps_wanted)
    first[0] = max(0, head.reached - head.ragged(steps_wanted))
    reached[0] = steps_wanted - head.steps <= tolerance
    if not reached[0]:
        word = np.roll(template, -offset)[:END_WINDOW]
        found = _find_word(symbols, cycle, word, int(cycle.position[0]), -1)
        if found is not None:
            first[0], reached[0] = found, True

    _cut_between(
        symbols, template, cycle.position, cycle.phase, offset, low, EDIT_CELLS, first, stop
    )
    finish = (high + 1) * period + offset
    steps_wanted = finish - 1 - int(cycle.phase[-1])
    tail = _extend(symbols, cycle, template, len(cycle.position) - 1, 1, steps_wanted)
    stop[-1] = min(len(symbols), tail.reached + 1 + tail.ragged(steps_wanted))
    if steps_wanted - tail.steps > tolerance:
        word = np.roll(template, -offset)[-END_WINDOW:]
        found = _find_word(symbols, cycle, word, int(cycle.position[-1]), 1)
        if found is None:
            reached[-1] = False
        else:
            stop[-1] = found + len(word)
    return first, stop, reached


def _find_word(
    symbols: NDArray[np.int32], cycle: Cycle, word: NDArray[np.int32], at: int, direction: int
) -> int | None:
    """The outermost place of a word in the familiar operations on one side of a hit.

    This is where an outermost turn begins or ends whose inner loops have other counts than the
    template's. None where the word is not there: the turn is cut short.
    """
    strange = np.flatnonzero(~cycle.alike)
    if direction > 0:
        after = strange[strange > at]
        low, high = at, int(after[0]) if len(after) else len(symbols)
    else:
        before = strange[strange < at]
        low, high = int(before[-1]) + 1 if len(before) else 0, at + len(word)
    part = symbols[low:high]
    if len(part) < len(word):
        return None
    windows = np.lib.stride_tricks.sliding_window_view(part, len(word))
    places = np.flatnonzero((windows == word).all(axis=1))
    if not len(places):
        return None
    return low + int(places[-1] if direction > 0 else places[0])


@compiled
def _count_kinds(
    kind: NDArray[np.int32],
    first: NDArray[np.int64],
    stop: NDArray[np.int64],
    counted: NDArray[np.bool_],
    turns_with: NDArray[np.int64],
    kinds_in: NDArray[np.int64],
) -> None:
    """In how many turns each kind is, and how many of the kinds to be counted each turn has."""
    seen = np.full(len(counted), -1, np.int64)
    turns_with[:] = 0
    for t in range(len(first)):
        kinds_in[t] = 0
        # One earlier: at the end of the lane, the pair over the end of the turn is missing.
        for i in range(max(0, first[t] - 1), stop[t]):
            k = kind[i]
            if k >= 0 and seen[k] != t:
                seen[k] = t
                turns_with[k] += 1
                if counted[k]:
                    kinds_in[t] += 1


@compiled
def _cut_between(
    symbols: NDArray[np.int32],
    template: NDArray[np.int32],
    position: NDArray[np.int64],
    phase: NDArray[np.int64],
    offset: int,
    low: int,
    max_cells: int,
    first: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> None:
    period = len(template)
    for h in range(1, len(position)):
        before = (phase[h - 1] - offset) // period
        now = (phase[h] - offset) // period
        if now == before:
            continue
        wanted = now * period + offset
        i1, i2, y1, y2 = position[h - 1], position[h], phase[h - 1], phase[h]
        for t in range(before + 1 - low, now - low):
            # A turn without a single hit is none.
            first[t] = i2
            stop[t] = i2
        forward, backward = i1 + (wanted - y1), i2 - (y2 - wanted)
        t = now - low
        if forward == backward or y2 == wanted:
            first[t] = backward
            stop[before - low] = min(forward, backward)
            if y2 != wanted or forward == backward:
                continue
        rows, columns = y2 - y1, i2 - i1
        if rows * columns > max_cells:
            first[t] = max(backward, i1 + 1)
            stop[before - low] = min(forward, first[t])
            continue
        # Edit distance of the operations between the two hits to the template between them;
        # the matched operations on either side of the cut end and begin the turns.
        cost = np.empty((rows + 1, columns + 1), np.int32)
        for r in range(rows + 1):
            cost[r, 0] = r
        for c in range(columns + 1):
            cost[0, c] = c
        for r in range(1, rows + 1):
            here = template[(y1 + r) % period]
            for c in range(1, columns + 1):
                edit = 0 if symbols[i1 + c] == here else 1
                cost[r, c] = min(cost[r - 1, c - 1] + edit, min(cost[r - 1, c], cost[r, c - 1]) + 1)
        r, c = rows, columns
        begin, end = i2, i1 + 1
        while r > 0 and c > 0:
            same = symbols[i1 + c] == template[(y1 + r) % period]
            # Of equal ways, the turn before ends as early and the next one begins as late as it
            # can: what is foreign lies between them in one piece.
            if (not same or y1 + r < wanted) and cost[r, c] == cost[r, c - 1] + 1:
                c -= 1
            elif not same and cost[r, c] == cost[r - 1, c] + 1:
                r -= 1
            else:
                if y1 + r >= wanted:
                    begin = min(begin, i1 + c)
                else:
                    end = max(end, i1 + c + 1)
                r -= 1
                c -= 1
        first[t] = begin
        stop[before - low] = min(end, begin)
