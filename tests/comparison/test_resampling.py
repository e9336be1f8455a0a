"""The test of durations: exact against slow oracles, honest in simulations."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_deepprof.comparison.resampling import (
    MIN_COUNT,
    NORMAL_FROM,
    compare_durations,
    permutation_p_value,
    spell_length,
    student_quantile,
)

DURATIONS = st.lists(st.integers(1, 10**12), min_size=4, max_size=12)


def ranks_by_counting(values: list[int]) -> list[float]:
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def p_value_by_listing(a: list[int], b: list[int]) -> float:
    """Every way to choose which of the pooled times are A's, one by one."""
    ranks = ranks_by_counting(a + b)
    middle = sum(ranks) / len(ranks) * len(a)
    observed = abs(sum(ranks[: len(a)]) - middle)
    splits = list(combinations(ranks, len(a)))
    return sum(abs(sum(split) - middle) >= observed - 1e-6 for split in splits) / len(splits)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
)
def test_the_permutation_test_is_exact_for_few_times(a: list[int], b: list[int]) -> None:
    got = permutation_p_value(np.array(a, float), np.array(b, float), np.random.default_rng(0))
    assert got == pytest.approx(p_value_by_listing(a, b))


def test_for_many_times_the_normal_distribution_stands_for_the_splits() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 50, NORMAL_FROM // 2), rng.integers(0, 52, NORMAL_FROM // 2)
    sampled = permutation_p_value(a.astype(float), b.astype(float), np.random.default_rng(0))
    more_a, more_b = np.append(a, 25).astype(float), np.append(b, 25).astype(float)
    assert permutation_p_value(more_a, more_b, rng) == pytest.approx(sampled, abs=0.02)


@pytest.mark.parametrize(
    ("freedom", "probability", "expected"),
    # From printed tables.
    [
        (1, 0.975, 12.706),
        (2, 0.995, 9.925),
        (3, 0.975, 3.182),
        (5, 0.995, 4.032),
        (10, 0.975, 2.228),
        (30, 0.95, 1.697),
        (1000, 0.975, 1.962),
    ],
)
def test_students_quantiles_are_those_of_the_tables(
    freedom: float, probability: float, expected: float
) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(expected, rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(DURATIONS, DURATIONS)
def test_the_same_input_gives_the_same_output(a: list[int], b: list[int]) -> None:
    first = compare_durations(np.array(a), np.array(b), seed=3)
    assert first == compare_durations(np.array(a), np.array(b), seed=3)
    assert first.a_median_ns == np.median(a)
    assert first.b_median_ns == np.median(b)
    assert first.delta_share == first.b_median_ns / first.a_median_ns - 1
    assert first.ci_low is not None
    assert first.ci_high is not None
    assert first.ci_low - 1e-9 <= first.delta_share <= first.ci_high + 1e-9


@settings(max_examples=25, deadline=None)
@given(DURATIONS, DURATIONS, st.integers(1, 3))
def test_times_measured_from_several_places_are_one_time_an_iteration(
    a: list[int], b: list[int], places: int
) -> None:
    """Places that agree with each other tell nothing new."""
    once = compare_durations(np.array(a), np.array(b))
    often = compare_durations(
        np.repeat(np.array(a)[:, None], places, axis=1),
        np.repeat(np.array(b)[:, None], places, axis=1),
    )
    assert once == often


@settings(max_examples=25, deadline=None)
@given(DURATIONS)
def test_equal_times_differ_by_nothing(times: list[int]) -> None:
    got = compare_durations(np.array(times), np.array(times))
    assert got.delta_share == 0
    assert got.verdict in ("same", "inconclusive")
    assert got.p_value == 1


@settings(deadline=None)
@given(st.integers(0, MIN_COUNT - 1), st.integers(0, 30))
def test_too_few_times_are_inconclusive_and_say_so(few: int, many: int) -> None:
    sides = np.full(few, 100), np.full(many, 200)
    for a, b in (sides, sides[::-1]):
        got = compare_durations(a, b)
        assert got.verdict == "inconclusive"
        assert got.reason
        assert got.ci_low is None
        assert (got.a_median_ns is None) == (len(a) == 0)


def test_steady_times_are_told_apart_and_tiny_changes_are_the_same() -> None:
    a = np.full(10, 1_000_000)
    assert compare_durations(a, a * 103 // 100).verdict == "slower"
    assert compare_durations(a, a * 97 // 100).verdict == "faster"
    assert compare_durations(a, a * 1_001 // 1_000).verdict == "same"


def noise(rng: np.random.Generator, size: int, kind: str) -> np.ndarray:
    if kind == "normal":
        return rng.normal(0, 0.02, size)
    # Mostly steady, and one in seven iterations is much slower: what host hiccups look like.
    return rng.normal(0, 0.01, size) + (rng.random(size) < 0.15) * rng.exponential(0.2, size)


@pytest.mark.parametrize("kind", ["normal", "tailed"])
@pytest.mark.parametrize("size", [8, 50])
def test_false_alarms_are_rare(kind: str, size: int) -> None:
    rng = np.random.default_rng(5)
    verdicts = [
        compare_durations(
            np.rint(16e6 * np.exp(noise(rng, size, kind))).astype(np.int64),
            np.rint(16e6 * np.exp(noise(rng, size, kind))).astype(np.int64),
        ).verdict
        for _ in range(120)
    ]
    assert sum(v in ("slower", "faster") for v in verdicts) <= 0.05 * len(verdicts)


@pytest.mark.parametrize("kind", ["normal", "tailed"])
def test_three_per_cent_are_found_in_fifty_iterations(kind: str) -> None:
    rng = np.random.default_rng(6)
    found = [
        compare_durations(
            np.rint(16e6 * np.exp(noise(rng, 50, kind))).astype(np.int64),
            np.rint(16e6 * 1.03 * np.exp(noise(rng, 50, kind))).astype(np.int64),
        ).verdict
        for _ in range(100)
    ]
    assert found.count("slower") >= 95


def spells(rng: np.random.Generator, size: int, correlation: float) -> np.ndarray:
    """Noise of 3 % in which each value resembles the one before."""
    fresh = rng.standard_normal(size + 50) * (1 - correlation**2) ** 0.5
    values = [0.0]
    for new in fresh:
        values.append(correlation * values[-1] + new)
    return np.rint(16e6 * np.exp(0.03 * np.array(values[-size:]))).astype(np.int64)


@pytest.mark.parametrize(("size", "correlation"), [(50, 0.6), (200, 0.8)])
def test_spells_of_slow_iterations_are_no_false_alarm(size: int, correlation: float) -> None:
    rng = np.random.default_rng(7)
    verdicts = [
        compare_durations(spells(rng, size, correlation), spells(rng, size, correlation)).verdict
        for _ in range(200)
    ]
    assert sum(v in ("slower", "faster") for v in verdicts) <= 0.05 * len(verdicts)


def test_ten_per_cent_are_found_through_spells() -> None:
    rng = np.random.default_rng(8)
    found = [
        compare_durations(spells(rng, 50, 0.6), spells(rng, 50, 0.6) * 11 // 10).verdict
        for _ in range(60)
    ]
    assert found.count("slower") >= 57


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.8])
def test_the_length_of_spells_is_that_of_the_autoregression(correlation: float) -> None:
    rng = np.random.default_rng(9)
    sides = (spells(rng, 4_000, correlation).astype(float) for _ in range(2))
    expected = (1 + correlation) / (1 - correlation)
    assert spell_length(*sides) == pytest.approx(expected, rel=0.15)


def test_steady_and_few_times_have_no_spells() -> None:
    assert spell_length(np.full(20, 5.0), np.full(30, 6.0)) == 1
    assert spell_length(np.arange(19.0), np.arange(50.0)) == 1
    assert spell_length(np.arange(50.0), np.arange(50.0)) > 10


def test_hundreds_of_thousands_of_iterations_are_resampled_in_pieces() -> None:
    a = np.random.default_rng(0).integers(1_000, 1_010, 100_000)
    tracemalloc.start()
    got = compare_durations(a, a)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got.verdict == "same"
    assert peak_bytes < 200 * 2**20
