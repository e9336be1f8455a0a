"""Overlapping intervals on sub-tracks, against a greedy loop that looks at one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.subtracks import first_fit

small_intervals = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=40,
)


def arrays(intervals: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([s for s, _ in intervals], np.int64),
        np.array([e for _, e in intervals], np.int64),
    )


def overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Both hold a point, or the empty one of them lies strictly inside the other."""
    return (
        max(a[0], b[0]) < min(a[1], b[1])
        or a[0] < b[0] == b[1] < a[1]
        or (b[0] < a[0] == a[1] < b[1])
    )


def greedy(intervals: list[tuple[int, int]]) -> list[int]:
    """Each in order of start onto the lowest track whose last interval is over; of those that start
    together the empty ones first, then the longest."""

    def order(i: int) -> tuple[int, bool, int]:
        start, end = intervals[i]
        return start, end > start, -end

    last_end: list[int] = []
    track = [0] * len(intervals)
    for i in sorted(range(len(intervals)), key=order):
        start, end = intervals[i]
        free = [t for t, over in enumerate(last_end) if over <= start]
        if not free:
            last_end.append(end)
        track[i] = free[0] if free else len(last_end) - 1
        last_end[track[i]] = end
    return track


@given(small_intervals)
def test_it_is_the_greedy_assignment(intervals: list[tuple[int, int]]) -> None:
    assert first_fit(*arrays(intervals)).tolist() == greedy(intervals)


@given(small_intervals, st.integers(0, 3))
def test_no_track_holds_two_that_overlap(intervals: list[tuple[int, int]], filled: int) -> None:
    track = first_fit(*arrays(intervals), filled=filled)
    for i, a in enumerate(intervals):
        for j, b in enumerate(intervals[:i]):
            assert track[i] != track[j] or not overlap(a, b)


@given(small_intervals, st.integers(0, 3))
def test_there_are_as_many_tracks_as_the_greedy_loop_needs(
    intervals: list[tuple[int, int]], filled: int
) -> None:
    track = first_fit(*arrays(intervals), filled=filled)
    assert sorted(set(track.tolist())) == list(range(max(greedy(intervals), default=-1) + 1))


@pytest.mark.parametrize("count", [1, 2, 100_000])
def test_what_runs_one_after_another_stays_on_one_track(count: int) -> None:
    starts = np.arange(count, dtype=np.int64) * 10
    assert not first_fit(starts, starts + 10).any()


def test_depth_costs_little() -> None:
    """Ranges that are never closed: as deep as there are intervals."""
    starts = np.arange(200_000, dtype=np.int64)
    track = first_fit(starts, np.full_like(starts, 10**9))
    assert track.tolist() == list(range(len(starts)))
