"""Real traces with a known loop, mined from their kernels alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nsys_deepprof.analyses.iterations import iterations
from nsys_deepprof.analyses.lanes import lanes
from nsys_deepprof.analyses.patterns import patterns
from nsys_deepprof.mining.identity import pattern_id
from nsys_deepprof.mining.iterations import find_iterations
from nsys_deepprof.opening import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nsys_deepprof.trace import Trace

    RealTrace = Callable[[str], Path]

STATES = ["compute_ns", "comm_ns", "copy_ns", "memset_ns", "idle_ns"]


@pytest.mark.parametrize(
    ("name", "kernels"), [("train_a100_6steps", 1383), ("train_v100_5steps", 870)]
)
def test_training_steps(real_trace: RealTrace, name: str, kernels: int) -> None:
    path = real_trace(name)
    steps = json.loads(path.with_suffix(".steps.json").read_text())
    true_ns = np.array([step["gpu_start_ns"] for step in steps if step["kernels"]])
    trace = open_trace(path)
    # No NVTX range takes part in this.
    found, _ = find_iterations(lanes(trace)[0].sequence)
    assert found is not None
    assert len(found) == len(true_ns)
    period_ns = (true_ns[-1] - true_ns[0]) / (len(true_ns) - 1)
    assert np.abs(found.start_ns - true_ns).max() <= 0.02 * period_ns
    assert len(found.body) == kernels

    result = iterations(trace)
    assert result.extra["lanes"]["nvtx_agreement"][0] == 1
    assert (result.frame.select(STATES).sum_horizontal() == result.frame["duration_ns"]).all()


@pytest.mark.parametrize(
    ("name", "kernels", "at_least"),
    [
        ("h100_diffusion_2gpu_before", 119, 16),
        ("h100_diffusion_2gpu_after", 119, 14),
        ("h100_diffusion_offload_2gpu", 62, 26),
    ],
)
def test_the_same_cycle_on_both_gpus(
    real_trace: RealTrace, name: str, kernels: int, at_least: int
) -> None:
    patterns_seen = set()
    for lane in lanes(open_trace(real_trace(name))):
        found, _ = find_iterations(lane.sequence)
        assert found is not None
        assert len(found.body) == kernels
        assert len(found) >= at_least
        patterns_seen.add(pattern_id(found.body, lane.sequence.names))
    assert len(patterns_seen) == 1


def test_one_pattern_id_before_and_after(real_trace: RealTrace) -> None:
    seen = {
        row
        for name in ("h100_diffusion_2gpu_before", "h100_diffusion_2gpu_after")
        for row in iterations(open_trace(real_trace(name))).frame["pattern"]
    }
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("name", "turns", "length"),
    [
        ("cuda_loop_2025", 90, 1),
        ("openacc_solver", 1934, 1),
        ("transformer_train_nvtx_2024", 4, 1832),
        # Three kernels and one replay of the graph, ten times.
        ("llm_graph_replay_2024", 10, 4),
    ],
)
def test_known_loops(real_trace: RealTrace, name: str, turns: int, length: int) -> None:
    found, _ = find_iterations(lanes(open_trace(real_trace(name)))[0].sequence)
    assert found is not None
    assert (len(found), len(found.body)) == (turns, length)


@pytest.mark.parametrize("name", ["ddp_train_2gpu_2026", "transformer_step_a100_2026"])
def test_a_single_step_has_no_iterations(real_trace: RealTrace, name: str) -> None:
    trace = open_trace(real_trace(name))
    result = iterations(trace)
    assert result.frame.height == 0
    assert result.extra["found_by"] == "none"
    assert result.extra["reason"]
    # What repeats is said, with its share: the layers of the twelve transformer blocks.
    busiest = patterns(trace).frame.filter(lane=lanes(trace)[0].label)
    blocks = busiest.filter(occurrences=12)
    assert blocks.height >= 2
    assert blocks["coverage_share"].max() < 0.6
    assert "x12" in result.extra["lanes"]["nest"][0]


def test_every_real_trace_has_rows_that_add_up(each_real_trace: Path) -> None:
    trace = open_trace(each_real_trace)
    rows = iterations(trace, all_lanes=True).frame
    assert (rows.select(STATES).sum_horizontal() == rows["duration_ns"]).all()
    assert (rows["duration_ns"] > 0).all() or rows.height == 0
    found = patterns(trace).frame
    shares = found["coverage_share"].drop_nulls()
    assert ((shares >= 0) & (shares <= 1)).all()
    # Occurrences never overlap: together they are no longer than their lane.
    sizes = trace_sizes(trace)
    for lane, length, times in found.select("lane", "length", "occurrences").iter_rows():
        assert length * times <= 1.2 * sizes[lane]


def trace_sizes(trace: Trace) -> dict[str, int]:
    return {lane.label: len(lane.sequence) for lane in lanes(trace)}
