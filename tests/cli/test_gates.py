"""Commands that a CI job can fail on: their exit status is the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fixtures.builder import Export
from tests.cli.contract import DIFF_ITERATION_KEYS, DIFF_KEYS, VERDICTS
from tests.cli.running import run

if TYPE_CHECKING:
    from pathlib import Path

US = 1_000


def steps(path: Path, *, kernel_us: int, count: int = 20) -> Path:
    """`count` steps of three kernels, the middle one as long as asked."""
    built, at = Export(), 0
    for _ in range(count):
        for name, length in (("embed", 40), ("gemm", kernel_us), ("adam", 60)):
            built.kernel(at, at + length * US, name=name)
            at += (length + 5) * US
    return built.write(path)


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    return steps(tmp_path / "fast.sqlite", kernel_us=100)


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    return steps(tmp_path / "slow.sqlite", kernel_us=200)


def test_diff_has_the_keys_of_the_contract(fast: Path, slow: Path) -> None:
    document = run("diff", fast, slow, "-f", "json").json()
    assert (document["schema"], document["command"]) == ("nsys-deepprof/1", "diff")
    assert document["rows"]
    assert all(set(DIFF_KEYS) <= set(row) for row in document["rows"])
    assert set(DIFF_ITERATION_KEYS) <= set(document["iteration"])
    assert document["iteration"]["verdict"] in VERDICTS


def test_diff_names_what_changed(fast: Path, slow: Path) -> None:
    document = run("diff", fast, slow, "-f", "json").json()
    assert document["iteration"]["verdict"] == "slower"
    assert (document["iteration"]["a_median_ns"], document["iteration"]["b_median_ns"]) == (
        215 * US,
        315 * US,
    )
    dearest = max(document["rows"], key=lambda row: row["delta_ns"] or 0)
    assert "gemm" in dearest["what"]
    assert dearest["delta_ns"] == 100 * US


@pytest.mark.parametrize(
    ("a", "b", "code"), [("fast", "slow", 1), ("slow", "fast", 0), ("fast", "fast", 0)]
)
def test_diff_fails_on_a_slower_run(
    a: str, b: str, code: int, request: pytest.FixtureRequest
) -> None:
    runs = [request.getfixturevalue(name) for name in (a, b)]
    ran = run("diff", *runs, "--fail-on", "3%")
    assert ran.code == code
    assert run("diff", *runs).code == 0


def test_diff_of_what_cannot_be_compared_is_inconclusive_and_fails(
    fast: Path, no_gpu: Path
) -> None:
    assert run("diff", fast, no_gpu, "-f", "json").json()["iteration"]["verdict"] == "inconclusive"
    assert run("diff", fast, no_gpu, "--fail-on", "3%").code == 1


def test_diff_of_a_bad_input_is_one_line(fast: Path, tmp_path: Path) -> None:
    ran = run("diff", fast, tmp_path / "typo.sqlite")
    assert (ran.code, ran.out) == (3, b"")
    assert ran.err.startswith(f"error: {tmp_path / 'typo.sqlite'}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("rule", "code"), [("idle_share<0.9", 0), ("idle_share<0.000001", 1), ("idle_share>=0", 0)]
)
def test_check_fails_when_a_rule_does(rule: str, code: int, fast: Path) -> None:
    ran = run("check", fast, "--rule", rule)
    assert ran.code == code
    assert ran.err == ""


@pytest.mark.parametrize("rule", ["nonsense<1", "idle_share", "idle_share<", "idle_share<x"])
def test_a_rule_that_is_none_is_wrong_usage(rule: str, fast: Path) -> None:
    ran = run("check", fast, "--rule", rule)
    assert (ran.code, ran.out) == (2, b"")


def test_what_could_not_be_looked_at_does_not_pass(no_gpu: Path) -> None:
    """No GPU work: the idle share is unknown, which is not below any limit."""
    assert run("check", no_gpu, "--rule", "idle_share<0.5").code == 1
