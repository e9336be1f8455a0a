"""Interval arithmetic against sets of integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof import intervals

POINTS = st.integers(min_value=-30, max_value=60)
SPANS = st.lists(st.tuples(POINTS, st.integers(min_value=0, max_value=15)), max_size=14)


def arrays(spans: list[tuple[int, int]]) -> intervals.Intervals:
    starts = np.array([s for s, _ in spans], np.int64)
    return starts, starts + np.array([length for _, length in spans], np.int64)


def members(spans: list[tuple[int, int]]) -> set[int]:
    return {x for s, length in spans for x in range(s, s + length)}


def points_of(disjoint: intervals.Intervals) -> set[int]:
    return {x for s, e in zip(*disjoint, strict=True) for x in range(s, e)}


def is_disjoint(found: intervals.Intervals) -> bool:
    starts, ends = found
    return bool((ends > starts).all() and (starts[1:] > ends[:-1]).all())


@given(SPANS)
def test_union_covers_the_same_points_and_is_disjoint(spans: list[tuple[int, int]]) -> None:
    merged = intervals.union(*arrays(spans))
    assert points_of(merged) == members(spans)
    assert is_disjoint(merged)
    assert intervals.total(merged) == len(members(spans))


@given(SPANS, SPANS)
def test_covered_between_counts_points(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    merged = intervals.union(*arrays(a))
    got = intervals.covered_between(merged, *arrays(b))
    assert got.tolist() == [len(members(a) & members([span])) for span in b]


@given(SPANS, POINTS, st.integers(min_value=0, max_value=40))
def test_complement_is_what_is_left(spans: list[tuple[int, int]], start: int, length: int) -> None:
    rest = intervals.complement(intervals.union(*arrays(spans)), start, start + length)
    assert points_of(rest) == set(range(start, start + length)) - members(spans)
    assert is_disjoint(rest)


@given(SPANS, SPANS)
def test_intersect_is_in_both(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    both = intervals.intersect(intervals.union(*arrays(a)), intervals.union(*arrays(b)))
    assert points_of(both) == members(a) & members(b)
    assert is_disjoint(both)


@given(SPANS, st.lists(POINTS, max_size=10))
def test_covering_is_membership(spans: list[tuple[int, int]], points: list[int]) -> None:
    got = intervals.covering(intervals.union(*arrays(spans)), np.array(points, np.int64))
    assert got.tolist() == [x in members(spans) for x in points]


@given(
    st.lists(POINTS, min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(min_value=-1, max_value=40), POINTS), max_size=12),
)
def test_last_above_is_a_backward_search(values: list[int], asked: list[tuple[int, int]]) -> None:
    upto = [min(i, len(values) - 1) for i, _ in asked]
    thresholds = [t for _, t in asked]
    got = intervals.last_above(
        np.array(values, np.int64), np.array(upto, np.int64), np.array(thresholds, np.int64)
    )
    want = [
        max((i for i in range(last + 1) if values[i] > threshold), default=-1)
        for last, threshold in zip(upto, thresholds, strict=True)
    ]
    assert got.tolist() == want
