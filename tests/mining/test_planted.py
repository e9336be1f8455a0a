"""Planted traces: a small part of `python -m tests.benchmarks.accuracy`, with the same judge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.scenarios import ACCURACY, WITHOUT_ITERATIONS
from tests.benchmarks.accuracy.planted import judge
from tests.benchmarks.accuracy.scores import score_starts

SEED = 31
LEAST_F1 = {"noise3": 0.95, "varying": 0.95, "serving": 0.95}


@pytest.mark.parametrize("kind", [kind for kind in ACCURACY if kind != "interleaved"])
def test_planted_iterations_are_found(kind: str) -> None:
    outcome = judge(kind, SEED)
    assert outcome.ours.f1 >= LEAST_F1.get(kind, 0.98)
    if kind in ("clean", "accumulate", "deep", "few", "slow"):
        assert outcome.ours.f1 == 1
        assert outcome.nest_right
    if kind == "slow":
        assert outcome.flags_right
        assert outcome.reasons_right


@pytest.mark.parametrize("kind", WITHOUT_ITERATIONS)
def test_nothing_is_found_where_nothing_repeats(kind: str) -> None:
    outcome = judge(kind, SEED)
    assert outcome.ours.found == 0
    assert outcome.reason


@given(st.lists(st.integers(1, 50), min_size=2, max_size=20), st.integers(-3, 3))
def test_starts_are_matched_one_to_one(steps: list[int], shift: int) -> None:
    true = np.cumsum(np.array(steps) * 1_000)
    end = int(true[-1]) + 10_000
    exact = score_starts(true, true, end)
    assert (exact.precision, exact.recall, exact.f1) == (1, 1, 1)
    doubled = score_starts(np.repeat(true, 2), true, end)
    assert doubled.recall == 1
    assert doubled.precision == 0.5
    within = 0.02 * np.median(np.diff(np.r_[true, end]))
    moved = score_starts(true + shift, true, end)
    assert moved.f1 == 1 if abs(shift) <= within else moved.f1 < 1
    assert score_starts(true[:0], true, end).f1 == 0
    assert score_starts(true[:0], true[:0], 0).f1 == 1
