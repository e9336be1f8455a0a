"""Change points: planted ones are found where they are, and none where there is none."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_deepprof.batch import change_points as cp
from nsys_deepprof.batch.change_points import change_points


def series(rng: np.random.Generator, *levels: tuple[float, int], noise: float) -> np.ndarray:
    clean = np.concatenate([np.full(count, level) for level, count in levels])
    return clean * np.exp(rng.normal(0, noise, len(clean)))


def test_a_planted_change_is_found_where_it_is() -> None:
    found = []
    for seed in range(100):
        values = series(np.random.default_rng(seed), (100, 15), (105, 12), noise=0.01)
        found.append([point.index for point in change_points(values)])
    assert sum(15 in indexes for indexes in found) >= 90
    assert sum(any(abs(i - 15) <= 1 for i in indexes) for indexes in found) >= 98
    assert np.mean([len(indexes) for indexes in found]) < 1.1


def test_a_slow_week_is_two_changes() -> None:
    hits = 0
    for seed in range(50):
        values = series(np.random.default_rng(seed), (10, 20), (11, 7), (10, 20), noise=0.01)
        hits += [point.index for point in change_points(values)] == [20, 27]
    assert hits >= 45


def test_a_staircase_has_every_step() -> None:
    hits = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        values = series(rng, (1.25, 8), (1.3, 6), (1.37, 10), noise=0.002)
        hits += [point.index for point in change_points(values)] == [8, 14]
    assert hits >= 47


def test_steady_series_have_no_change() -> None:
    lengths = np.random.default_rng(1).integers(2, 80, 200)
    alarms = sum(
        bool(change_points(series(np.random.default_rng(seed), (50, n), noise=0.05), min_effect=0))
        for seed, n in enumerate(lengths)
    )
    assert alarms / 200 <= 0.03


def test_one_wild_run_is_no_change() -> None:
    values = series(np.random.default_rng(3), (20, 30), noise=0.003)
    values[17] *= 10
    assert change_points(values) == []


def test_a_change_too_small_to_matter_is_not_told() -> None:
    values = series(np.random.default_rng(4), (100, 40), (101, 40), noise=0.0001)
    assert change_points(values) == []
    (point,) = change_points(values, min_effect=0.005)
    assert (point.index, point.from_index, point.to_index) == (40, 0, 80)
    assert point.share == pytest.approx(0.01, abs=0.001)


@pytest.mark.parametrize("values", [[], [1.0], [1, 2], [1, 2, 3], [5.0] * 50])
def test_too_few_or_equal_runs_have_no_change(values: list[float]) -> None:
    assert change_points(np.array(values, float)) == []


@given(st.lists(st.integers(1, 9), min_size=4, max_size=14))
@settings(max_examples=60, deadline=None)
def test_the_strongest_stretch_is_that_of_a_plain_search(numbers: list[int]) -> None:
    ranks = cp._ranks(np.array(numbers, float))
    size = len(numbers)

    def statistic(i: int, j: int) -> float:
        return abs(sum(ranks[i:j])) / np.sqrt((j - i) * (size - (j - i)))

    # Ranks from their definition: how many are smaller, and half of the equal ones.
    for value, rank in zip(numbers, ranks, strict=True):
        smaller = sum(other < value for other in numbers)
        equal = numbers.count(value)
        assert rank == pytest.approx(smaller + (equal + 1) / 2 - (size + 1) / 2)
    low = cp.MIN_RUNS
    at_ends = [(0, j) for j in range(low, size - low + 1)]
    anywhere = [
        (i, j)
        for i, j in combinations(range(size + 1), 2)
        if j - i >= low and i >= low and size - j >= low
    ]
    for search, stretches in ((cp._at_ends, at_ends), (cp._anywhere, anywhere)):
        best, where = search(ranks[None, :])
        expected = max((statistic(i, j) for i, j in stretches), default=0.0)
        assert best[0] == pytest.approx(expected)
        if expected > 1e-9:
            assert statistic(*where[0]) == pytest.approx(expected)


def test_the_same_series_has_the_same_answer_alone_and_again() -> None:
    values = series(np.random.default_rng(8), (10, 12), (12, 12), (9, 12), noise=0.02)
    assert change_points(values) == change_points(values.copy())
    assert [p.index for p in change_points(values)] == [12, 24]
