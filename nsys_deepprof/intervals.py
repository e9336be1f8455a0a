"""Exact arithmetic on half-open integer intervals, by sorting and searching.

A set of intervals is a pair of int64 arrays `(starts, ends)`. A *disjoint* set is sorted and its
members neither overlap nor touch; `union` makes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Ints: TypeAlias = npt.NDArray[np.int64]
Intervals: TypeAlias = tuple[Ints, Ints]

EMPTY: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))


def union(starts: Ints, ends: Ints) -> Intervals:
    """The disjoint set that covers the same points. Empty intervals cover none."""
    keep = ends > starts
    if not keep.all():
        starts, ends = starts[keep], ends[keep]
    if len(starts) == 0:
        return EMPTY
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    first = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], reach[last]


def stacked(sets: Iterable[Intervals]) -> tuple[Intervals, ...]:
    """For each of `sets`, the disjoint set of points in it or in any before it.

    With sets in order of precedence, `layer_lengths` of the result splits any time among them.
    """
    layers: list[Intervals] = []
    below = EMPTY
    for starts, ends in sets:
        # A set of nothing adds nothing: the layer below is shared, and not copied.
        if len(starts):
            below = union(np.concatenate((below[0], starts)), np.concatenate((below[1], ends)))
        layers.append(below)
    return tuple(layers)


def layer_lengths(layers: Sequence[Intervals], starts: Ints, ends: Ints) -> list[Ints]:
    """For each interval, the length in each of the layers of `stacked` and not in the one below;
    last, the length outside of all. They add up to the interval."""
    parts: list[Ints] = []
    below, lower = EMPTY, np.zeros_like(starts)
    for layer in layers:
        # The same object: nothing of this set was there to add.
        covered = lower if layer is below else covered_between(layer, starts, ends)
        parts.append(covered - lower)
        below, lower = layer, covered
    return [*parts, ends - starts - lower]


def covered_before(disjoint: Intervals, points: Ints) -> Ints:
    """For each point x, the length that the set covers in (-inf, x).

    The length covered in [a, b) is then `covered_before(b) - covered_before(a)`.
    """
    starts, ends = disjoint
    if len(starts) == 0:
        return np.zeros(len(points), np.int64)
    before = np.concatenate(([0], np.cumsum(ends - starts)))
    # In place: points are many, and memory that is touched anew costs more than the arithmetic.
    index = np.searchsorted(starts, points, side="right")
    covered: Ints = before[index]
    index -= 1
    over = ends[index]
    over -= points
    over[index < 0] = 0
    covered -= np.maximum(over, 0, out=over)
    return covered


def covered_between(disjoint: Intervals, starts: Ints, ends: Ints) -> Ints:
    """For each interval, the length of it that the disjoint set covers."""
    if len(disjoint[0]) == 1:
        # A window: there is nothing to search for.
        (from_ns,), (to_ns,) = disjoint
        inside: Ints = np.minimum(ends, to_ns)
        inside -= np.maximum(starts, from_ns)
        np.maximum(inside, 0, out=inside)
        return inside
    return covered_before(disjoint, ends) - covered_before(disjoint, starts)


def total(disjoint: Intervals) -> int:
    """Length that a disjoint set covers."""
    return int((disjoint[1] - disjoint[0]).sum())


def complement(disjoint: Intervals, start: int, end: int) -> Intervals:
    """The maximal intervals of [start, end) that the disjoint set does not touch."""
    if end <= start:
        return EMPTY
    starts, ends = clip(disjoint, start, end)
    gap_starts = np.concatenate(([start], ends)).astype(np.int64)
    gap_ends = np.concatenate((starts, [end])).astype(np.int64)
    keep = gap_ends > gap_starts
    return gap_starts[keep], gap_ends[keep]


def clip(disjoint: Intervals, start: int, end: int) -> Intervals:
    """The part of a disjoint set inside [start, end)."""
    starts, ends = np.maximum(disjoint[0], start), np.minimum(disjoint[1], end)
    keep = ends > starts
    return starts[keep], ends[keep]


def intersect(first: Intervals, second: Intervals) -> Intervals:
    """The disjoint set of points in both disjoint sets."""
    (a_starts, a_ends), (b_starts, b_ends) = first, second
    # A piece begins where one set does inside the other. An edge of both counts for `first`: those
    # of `second` have to be inside on either side. Ends likewise.
    starts = (
        a_starts[covering(second, a_starts)],
        b_starts[covering(first, b_starts - 1) & covering(first, b_starts)],
    )
    ends = (
        a_ends[covering(second, a_ends - 1)],
        b_ends[covering(first, b_ends - 1) & covering(first, b_ends)],
    )
    # Two sorted runs each: a stable sort merges them.
    return np.sort(np.concatenate(starts), kind="stable"), np.sort(
        np.concatenate(ends), kind="stable"
    )


def covering(disjoint: Intervals, points: Ints) -> npt.NDArray[np.bool_]:
    """For each point, whether the disjoint set holds it."""
    starts, ends = disjoint
    if len(starts) == 0:
        return np.zeros(len(points), np.bool_)
    index = np.searchsorted(starts, points, side="right") - 1
    inside: npt.NDArray[np.bool_] = (index >= 0) & (ends[index] > points)
    return inside


def larger_before(values: Ints) -> Ints:
    """For each value, the index of the nearest earlier one that is larger, or -1.

    A few vector steps: as many as values are nested, not as many as there are.
    """
    larger = np.arange(-1, len(values) - 1, dtype=np.int64)
    todo = np.flatnonzero(larger >= 0)
    while len(todo):
        # Everything between an index and its link is not larger than the value at the index.
        todo = todo[values[larger[todo]] <= values[todo]]
        larger[todo] = larger[larger[todo]]
        todo = todo[larger[todo] >= 0]
    return larger


def last_above(values: Ints, upto: Ints, thresholds: Ints, larger: Ints | None = None) -> Ints:
    """For each query, the largest index i <= upto with values[i] > threshold, or -1.

    With intervals sorted by start, `values` their ends and `upto` the last one that starts at or
    before x, this is the innermost interval that covers x: nested or not.
    `larger` is `larger_before(values)`, for callers that ask more than once.
    """
    if larger is None:
        larger = larger_before(values)
    found = upto.astype(np.int64, copy=True)
    open_queries = np.flatnonzero(found >= 0)
    while len(open_queries):
        open_queries = open_queries[values[found[open_queries]] <= thresholds[open_queries]]
        found[open_queries] = larger[found[open_queries]]
        open_queries = open_queries[found[open_queries] >= 0]
    return found


def longest_overlap(starts: Ints, ends: Ints, query_starts: Ints, query_ends: Ints) -> Ints:
    """For each query interval, the index of the interval that covers the most of it, or -1.

    Intervals are sorted by start. Of those that begin before the query, the innermost one that
    reaches into it is considered. Of equal overlaps the first wins. Work grows with the number of
    intervals that start inside queries.
    """
    if len(starts) == 0 or len(query_starts) == 0:
        return np.full(len(query_starts), -1, np.int64)
    first = np.searchsorted(starts, query_starts, side="left")
    beyond = np.maximum(np.searchsorted(starts, query_ends, side="left"), first)
    covering_start = last_above(ends, first - 1, query_starts)
    count = beyond - first + 1
    query = np.repeat(np.arange(len(query_starts)), count)
    rank = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    candidate = np.where(rank == 0, covering_start[query], first[query] + rank - 1)
    overlap = np.minimum(ends[candidate], query_ends[query]) - np.maximum(
        starts[candidate], query_starts[query]
    )
    overlap[candidate < 0] = 0
    best = np.full(len(query_starts), -1, np.int64)
    most = np.maximum.reduceat(overlap, np.cumsum(count) - count)
    hits = np.flatnonzero((overlap == most[query]) & (overlap > 0))
    # Backwards, so that the first of equal ones is what stays.
    best[query[hits[::-1]]] = candidate[hits[::-1]]
    return best
