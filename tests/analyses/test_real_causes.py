"""Gaps, copies, kernels and findings of the real traces: known facts about each."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import polars as pl
import pytest

import nsys_deepprof as nd
from nsys_deepprof.analyses.gaps import PART_COLUMNS
from nsys_deepprof.analyses.lost_time import lost_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@cache
def opened(path: Path) -> nd.Trace:
    return nd.open_trace(path)


def test_totals_add_up_on_every_trace(each_real_trace: Path) -> None:
    trace = opened(each_real_trace)
    gpus = nd.info(trace).frame
    idle, copy = int(gpus["idle_ns"].sum()), int(gpus["copy_ns"].sum())
    gaps = nd.gaps(trace, min_gap_ns=0)
    assert gaps.frame["duration_ns"].sum() == idle == gaps.extra["all_total_ns"]
    parts = gaps.frame.select(pl.sum_horizontal(PART_COLUMNS)).to_series()
    assert (parts == gaps.frame["duration_ns"]).all()
    assert gaps.extra["by_cause"]["total_ns"].sum() == idle
    copies = nd.memcpy(trace)
    assert copies.frame.height == gpus["memcpys"].sum()
    assert copies.extra["exposed_ns"] == copy
    assert nd.kernels(trace).frame["calls"].sum() == gpus["kernels"].sum()
    pieces = lost_time(trace)
    assert (pieces["idle_ns"].sum(), pieces["copy_ns"].sum()) == (idle, copy)
    found = nd.findings(trace).frame
    assert found["recoverable_ns"].fill_null(0).sum() <= idle + copy
    assert found.select(pl.col("recoverable_share").fill_null(0).is_between(0, 1)).to_series().all()


@pytest.mark.parametrize("share", [(0.0, 0.5), (0.3, 0.6), (0.9, 0.95)])
def test_totals_add_up_inside_of_windows(each_real_trace: Path, share: tuple[float, float]) -> None:
    whole = opened(each_real_trace)
    first, last = whole.span_ns()
    from_ms, to_ms = ((last - first) * part / 1e6 for part in share)
    trace = nd.narrow(whole, from_ms=from_ms, to_ms=to_ms)
    gpus = nd.info(trace).frame
    pieces, found = lost_time(trace), nd.findings(trace)
    assert pieces["idle_ns"].sum() == gpus["idle_ns"].sum() == nd.gaps(trace).extra["all_total_ns"]
    assert pieces["copy_ns"].sum() == gpus["copy_ns"].sum() == nd.memcpy(trace).extra["exposed_ns"]
    assert nd.communication(trace).extra["gpus"]["exposed_ns"].sum() == gpus["comm_ns"].sum()
    assert found.extra["wall_ns"] == gpus["window_ns"].sum()
    assert found.frame["recoverable_share"].fill_null(0).sum() <= 1


def kinds(found: pl.DataFrame) -> list[str]:
    return found["kind"].to_list()


def test_places_of_findings_are_places_of_the_iteration(each_real_trace: Path) -> None:
    trace = nd.open_trace(each_real_trace)
    anatomy = nd.iterations(trace).extra["anatomy"]
    for finding in nd.findings(trace).frame.iter_rows(named=True):
        evidence = finding["evidence"]
        for place in evidence["places"] or []:
            assert place["times"] > 0
            assert (place["position"] is None) == (place["positions"] == 0)
            if place["position"] is not None:
                known = anatomy.filter(pl.col("pattern") == evidence["pattern"])["position"]
                assert place["position"] in known
                assert known.max() == evidence["pattern_operations"] - 1


def test_offloaded_weights_are_bound_by_pinned_copies(real_trace: Callable[[str], Path]) -> None:
    trace = opened(real_trace("h100_diffusion_offload_2gpu"))
    top = nd.findings(trace).frame.row(0, named=True)
    assert top["kind"] == "exposed_copy"
    assert top["title"].startswith("Pinned host-to-device copies")
    assert top["recoverable_share"] > 0.94
    assert not any("idle" in title.lower() for title in nd.findings(trace).frame["title"])
    large = nd.memcpy(trace).frame.filter((pl.col("kind") == "HtoD") & ~pl.col("small"))
    assert large["src_kind"].unique().to_list() == ["pinned"]
    assert "pageable" not in large["blocking"].drop_nulls().explode().drop_nulls().to_list()


def test_the_small_copies_of_the_diffusion_run_are_pageable(
    real_trace: Callable[[str], Path],
) -> None:
    trace = opened(real_trace("h100_diffusion_2gpu_before"))
    small = nd.memcpy(trace).frame.filter((pl.col("kind") == "HtoD") & (pl.col("bytes") == 8))
    assert small.height
    assert small["blocking"].list.contains("pageable").all()
    assert nd.kernels(trace).frame["calls"].sum() == 4_010
    assert nd.launches(trace).frame["kernels"].sum() == 4_010


def test_each_turn_of_the_loop_reads_back_and_waits(real_trace: Callable[[str], Path]) -> None:
    trace = opened(real_trace("cuda_loop_2025"))
    turns = nd.memcpy(trace).frame.filter((pl.col("kind") == "DtoH") & (pl.col("bytes") == 4))
    assert turns.height == 91
    assert (turns["blocking"].list.len() > 0).all()
    assert (turns["host_blocked_ns"] >= turns["duration_ns"]).all()
    found = nd.findings(trace).frame
    readback = found.filter(pl.col("kind") == "readback").row(0, named=True)
    assert readback["occurrences"] >= 90
    assert "4 B" in readback["title"]


def test_loading_weights_from_pageable_memory_is_said_first(
    real_trace: Callable[[str], Path],
) -> None:
    found = nd.findings(opened(real_trace("transformer_train_nvtx_2024"))).frame
    top = found.row(0, named=True)
    assert (top["kind"], top["severity"]) == ("pageable_copy", "high")
    assert "init_model" in top["where"]


@pytest.mark.parametrize("name", ["train_v100_5steps", "llm_graph_replay_2024", "one_kernel_2023"])
def test_runs_that_compute_nearly_all_the_time_get_no_finding(
    real_trace: Callable[[str], Path], name: str
) -> None:
    result = nd.findings(opened(real_trace(name)))
    assert result.frame.height == 0
    assert result.notes


def test_a_step_of_many_short_kernels_is_launch_bound(real_trace: Callable[[str], Path]) -> None:
    top = nd.findings(opened(real_trace("transformer_step_a100_2026"))).frame.row(0, named=True)
    assert top["kind"] == "launch_bound"
    assert top["recoverable_share"] > 0.3


def test_a_solver_that_waits_after_each_kernel(real_trace: Callable[[str], Path]) -> None:
    found = nd.findings(opened(real_trace("openacc_solver"))).frame
    assert kinds(found)[:3] == ["awaited_copy", "synchronise", "allocation"]
    assert found["occurrences"][:3].min() > 1_900


def test_ranks_that_wait_for_each_other(real_trace: Callable[[str], Path]) -> None:
    result = nd.communication(opened(real_trace("ddp_train_2gpu_2026")))
    assert result.extra["straggler"] == 0
    by_gpu = dict(result.extra["gpus"].select("gpu", "wait_ns").iter_rows())
    assert by_gpu[1] > 20 * by_gpu[0]
    states = nd.info(opened(real_trace("ddp_train_2gpu_2026"))).frame
    assert result.extra["gpus"]["exposed_ns"].sum() == states["comm_ns"].sum()


def test_a_full_launch_queue_is_no_cause_of_waiting(real_trace: Callable[[str], Path]) -> None:
    result = nd.findings(opened(real_trace("h100_diffusion_offload_2gpu")))
    assert any("full launch queue" in note for note in result.notes)
    assert not any("profiler itself" in warning for warning in result.extra["warnings"])
