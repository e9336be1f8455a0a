"""Small sequences with an obvious answer."""

from __future__ import annotations

import numpy as np
import pytest

from nsys_deepprof.mining.iterations import find_iterations, is_outlier
from nsys_deepprof.mining.loops import fold, merge_nests, nest_text, shape
from nsys_deepprof.mining.outliers import explain, gaps_before, usual
from nsys_deepprof.mining.sequence import Sequence, make_sequence

US = 1_000


def sequence_of(
    symbols: list[int], *, run_us: int = 10, gap_us: int = 1, slow: dict[int, int] | None = None
) -> Sequence:
    """Operations one after the other; `slow` adds microseconds to the duration of some."""
    run = np.full(len(symbols), run_us * US, np.int64)
    for index, extra_us in (slow or {}).items():
        run[index] += extra_us * US
    start = np.cumsum(np.r_[0, (run + gap_us * US)[:-1]])
    names = [f"kernel {code}" for code in range(max(symbols) + 1)]
    return make_sequence(np.array(symbols, np.int32), start, start + run, names)


def test_warm_up_loop_and_tail_are_told_apart() -> None:
    warm_up = list(range(100, 150))
    found, _ = find_iterations(sequence_of([*warm_up, *[0, 1, 2, 3] * 20, 0, 1]))
    assert found is not None
    assert len(found) == 20
    assert found.first[0] == 50
    assert found.stop[-1] == 130


@pytest.mark.parametrize(
    ("symbols", "length", "turns"),
    [
        ([0, 1, 2] * 512, 3, 512),
        ([0, 1, 2, 0, 1, 2, 3] * 100, 7, 100),
        ([0] * 20_000, 1, 20_000),
    ],
)
def test_the_dominant_period(symbols: list[int], length: int, turns: int) -> None:
    found, _ = find_iterations(sequence_of(symbols))
    assert found is not None
    assert (len(found.body), len(found)) == (length, turns)


@pytest.mark.parametrize(
    "symbols",
    [
        pytest.param(list(range(400)), id="all different"),
        pytest.param([0], id="one operation"),
        pytest.param([0, 1], id="two operations"),
        pytest.param(np.random.default_rng(5).integers(0, 50, 3_000).tolist(), id="random"),
    ],
)
def test_no_loop_is_said_with_a_reason(symbols: list[int]) -> None:
    found, choice = find_iterations(sequence_of(symbols))
    assert found is None
    assert choice.reason


def test_an_evaluation_pass_lies_between() -> None:
    forward, backward = [1, 2, 3] * 4, [4, 5, 6, 7] * 4
    step = [0, *forward, *backward, 8, 9]
    evaluation = [0, *forward] * 3
    symbols = (step * 10 + evaluation) * 4 + step
    found, _ = find_iterations(sequence_of([20, 21, 22, *symbols]))
    assert found is not None
    assert len(found) == 41
    assert (found.stop - found.first == len(step)).all()
    between = found.first[1:] - found.stop[:-1]
    assert sorted(np.unique(between).tolist()) == [0, len(evaluation)]


def test_micro_steps_are_inside_of_steps() -> None:
    micro = [0, *[1, 2, 3] * 5, *[4, 5, 6, 7] * 5]
    optimizer = [10, 11, 12, 13]
    found, _ = find_iterations(sequence_of([30, 31, *(micro * 4 + optimizer) * 12]))
    assert found is not None
    assert len(found) == 12
    assert nest_text(found.nest) == "(1, (3)x5, (4)x5)x4, 4"


def test_counts_that_vary_are_a_range() -> None:
    symbols: list[int] = []
    for layers in (4, 6, 5, 6, 4, 5, 6, 4):
        symbols += [0, 1, 2] + [3, 4, 5, 6, 7] * layers + [8, 9]
    found, _ = find_iterations(sequence_of(symbols))
    assert found is not None
    assert len(found) == 8
    assert nest_text(found.nest) == "3, (5)x4..6, 2"


def test_a_unit_is_another_level_of_the_nest() -> None:
    step = [0, *[1, 2, 3, 4, 5] * 8, 6, 7]
    sequence = sequence_of(step * 9)
    found, _ = find_iterations(sequence, unit=5)
    assert found is not None
    assert len(found.body) == 5
    assert len(found) == 72


@pytest.mark.parametrize("cause", ["kernel", "gap", "work"])
def test_why_an_iteration_is_slow(cause: str) -> None:
    step = [0, 1, 2, 3, 4, 5, 6, 7]
    symbols = step * 15
    at = 5 * len(step) + 3
    sequence = sequence_of(symbols, slow={at: 400} if cause == "kernel" else None)
    if cause == "gap":
        later = np.arange(len(symbols)) >= at
        sequence = make_sequence(
            sequence.symbols,
            sequence.start_ns + later * 400 * US,
            sequence.end_ns + later * 400 * US,
            sequence.names,
        )
    if cause == "work":
        symbols = [*symbols[:at], *range(50, 56), *symbols[at:]]
        sequence = sequence_of(symbols)
    found, _ = find_iterations(sequence)
    assert found is not None
    assert np.flatnonzero(is_outlier(found.duration_ns)).tolist() == [5]
    gap_ns = gaps_before(sequence)
    typical = usual(found, sequence.end_ns - sequence.start_ns, gap_ns)
    why = explain(sequence, found, 5, typical, gap_ns)
    assert why is not None
    assert (why.cause, why.position) == (cause, 3)
    assert why.added_ns == (66 * US if cause == "work" else 400 * US)
    assert why.operations == (6 if cause == "work" else 0)


def test_outliers_need_both_conditions() -> None:
    steady = np.full(50, 1_000_000, np.int64)
    assert not is_outlier(steady).any()
    steady[3] = 1_049_000
    assert not is_outlier(steady).any()
    steady[3] = 1_051_000
    assert np.flatnonzero(is_outlier(steady)).tolist() == [3]
    wide = np.linspace(500_000, 1_500_000, 51).astype(np.int64)
    assert not is_outlier(wide).any()


def test_nests_of_one_shape_merge() -> None:
    nests = [fold(np.array([0, 1, *[2, 3, 4] * times, 5])) for times in (4, 9, 6)]
    assert len({shape(nest) for nest in nests}) == 1
    assert nest_text(merge_nests(nests)) == "2, (3)x4..9, 1"
