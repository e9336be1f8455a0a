"""Findings and causes against generated runs whose stalls and costs are known exactly."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl
import pytest

import nsys_deepprof as nd
from fixtures.generator import generate
from fixtures.scenarios import STALLS
from fixtures.stalls import GAP_CAUSES

if TYPE_CHECKING:
    from fixtures.truth import Truth

FINDING_OF = {
    "sync": "synchronise",
    "alloc": "allocation",
    "free": "allocation",
    "load": "module_loading",
    "api": "cuda_call",
    "profiler": "profiler",
    "os": "os_wait",
    "data_loader": "os_wait",
    "host": "host_stall",
    "launch": "slow_call",
    "device_wait": "dependency",
    "event_wait": "dependency",
    "pageable": "pageable_copy",
    "sync_api": "sync_copy",
    "item": "readback",
    "pinned": "exposed_copy",
    "small_copies": "copy_train",
    "migrations": "migration",
}
"""The finding that each kind of planted stall must make. Two kinds cost other time than idle and
copies (`sync_memset`, `nccl`), and one hides its own cause (`unknown`)."""


def unplanted_cost_ns(kind: str, *, seed: int) -> int:
    """What the finding of a kind of stall costs in the same run with nothing planted.

    Its batches are copied from pinned memory while no kernel runs, as the planted copies are.
    """
    if kind != "pinned":
        return 0
    with TemporaryDirectory() as folder:
        truth = generate(STALLS["healthy"](seed), Path(folder) / "run.sqlite")
    return truth.states_ns[0]["copy_ns"]


@cache
def run(scenario: str) -> tuple[Truth, pl.DataFrame, pl.DataFrame, dict[str, object]]:
    """Truth, findings, gaps of the first GPU, and the findings' extra keys."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        truth = generate(STALLS[scenario](0), path)
        trace = nd.open_trace(path)
        found = nd.findings(trace)
        gaps = nd.gaps(trace, min_gap_ns=0).frame.filter(pl.col("gpu") == pl.col("gpu").min())
    return truth, found.frame, gaps, found.extra


@pytest.mark.parametrize("kind", sorted(FINDING_OF))
def test_a_planted_stall_is_found_at_its_cost(kind: str) -> None:
    truth, findings, _, _ = run(kind)
    assert findings.height
    top = findings.row(0, named=True)
    assert top["kind"] == FINDING_OF[kind]
    planted = sum(stall.idle_ns + stall.exposed_ns for stall in truth.stalls)
    cost = planted + unplanted_cost_ns(kind, seed=0)
    assert top["recoverable_ns"] == pytest.approx(cost, rel=0.01)
    assert top["occurrences"] >= len(truth.stalls)
    assert top["severity"] == "high"


@pytest.mark.parametrize("kind", sorted(FINDING_OF))
def test_nothing_else_is_blamed(kind: str) -> None:
    _, findings, _, extra = run(kind)
    assert set(findings["kind"]) == {FINDING_OF[kind]}
    lost = extra["idle_ns"] + extra["exposed_copy_ns"]  # type: ignore[operator]
    assert findings["recoverable_ns"].sum() <= lost


def test_a_healthy_run_has_no_finding() -> None:
    _, findings, _, extra = run("healthy")
    assert findings.height == 0
    assert extra["compute_ns"] > 0.9 * extra["wall_ns"]  # type: ignore[operator]


def test_a_launch_bound_run_is_said_to_be_one() -> None:
    _, findings, _, extra = run("launch_bound")
    top = findings.row(0, named=True)
    assert top["kind"] == "launch_bound"
    assert top["recoverable_ns"] > 0.9 * extra["idle_ns"]  # type: ignore[operator]
    evidence = top["evidence"]
    assert evidence["kernel_median_ns"] < evidence["launch_interval_ns"]


def test_communication_is_exposed_and_not_promised_back() -> None:
    truth, findings, _, _ = run("nccl")
    top = findings.row(0, named=True)
    assert top["kind"] == "exposed_communication"
    assert top["recoverable_ns"] is None
    planted = sum(stall.exposed_ns for stall in truth.stalls)
    assert top["evidence"]["comm_ns"] == pytest.approx(planted, rel=0.01)


def test_synchronous_memsets_of_managed_memory_are_told() -> None:
    truth, findings, _, _ = run("sync_memset")
    top = findings.row(0, named=True)
    assert top["kind"] == "exposed_memset"
    assert top["recoverable_ns"] is None
    planted = sum(stall.host_blocked_ns for stall in truth.stalls)
    assert top["evidence"]["host_blocked_ns"] == pytest.approx(planted, rel=0.01)


def test_where_the_cause_is_hidden_none_is_made_up() -> None:
    truth, findings, _, extra = run("unknown")
    assert findings.height == 0
    planted = sum(stall.idle_ns for stall in truth.stalls)
    assert extra["unknown_idle_ns"] == pytest.approx(planted, rel=0.01)


@pytest.mark.parametrize("scenario", [*sorted(GAP_CAUSES), "mixed"])
def test_causes_of_gaps_weighted_by_time(scenario: str) -> None:
    """Precision and recall of each cause over the planted gaps, by time."""
    truth, _, gaps, _ = run(scenario)
    found = {(a, b): c for a, b, c in gaps.select("start_ns", "end_ns", "cause").iter_rows()}
    planted: Counter[str] = Counter()
    named: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for stall in truth.stalls:
        if stall.kind not in GAP_CAUSES:
            continue
        for start, end in stall.gaps:
            cause = found[start, end]
            planted[GAP_CAUSES[stall.kind]] += end - start
            named[cause] += end - start
            right[cause] += (end - start) if cause == GAP_CAUSES[stall.kind] else 0
    for cause, total in planted.items():
        assert right[cause] / total >= 0.99, f"recall of {cause}"
        assert right[cause] / named[cause] >= 0.99, f"precision of {cause}"


@pytest.mark.parametrize("scenario", ["mixed", "sync", "pageable", "launch_bound", "healthy"])
def test_parts_and_states_are_those_of_the_generator(scenario: str) -> None:
    truth, _, gaps, _ = run(scenario)
    parts = {f"{part}_ns": total for part, total in truth.gap_parts_ns[0].items()}
    assert {column: int(gaps[column].sum()) for column in parts} == parts


def test_the_mixed_run_names_the_causes_that_matter() -> None:
    truth, findings, _, extra = run("mixed")
    cost: Counter[str] = Counter()
    for stall in truth.stalls:
        if stall.kind in FINDING_OF:
            cost[FINDING_OF[stall.kind]] += stall.idle_ns + stall.exposed_ns
    wall: int = extra["wall_ns"]  # type: ignore[assignment]
    for kind, total in cost.items():
        mine = findings.filter(pl.col("kind") == kind)
        if total >= 0.011 * wall:
            assert mine["recoverable_ns"].sum() == pytest.approx(total, rel=0.05), kind
        elif total < 0.0095 * wall and kind not in ("exposed_copy", "copy_train"):
            assert mine.height == 0, kind
