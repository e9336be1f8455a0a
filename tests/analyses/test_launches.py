"""Launches, queues, concurrency and communication on runs small enough to count by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.cli.groups import parse_groups
from nsys_deepprof.links import link_peaks

if TYPE_CHECKING:
    from pathlib import Path

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def opened(built: Export, folder: Path) -> nd.Trace:
    return nd.open_trace(built.write(folder / "x.sqlite"))


def test_launch_queue_and_run_of_a_stream(tmp_path: Path) -> None:
    built = Export()
    built.launch((0, 10), (20, 120))  # waits 10 after its call
    built.launch((30, 40), (120, 125))  # waits 80; runs for less than its call took
    built.launch((200, 230), (220, 300))  # starts within its call: no queue
    built.kernel(400, 500)  # launch not in the capture
    row = nd.launches(opened(built, tmp_path)).frame.row(0, named=True)
    assert (row["kernels"], row["launched"], row["calls"], row["api_ns"]) == (4, 3, 3, 50)
    assert (row["queue_median_ns"], row["queue_max_ns"]) == (10, 80)
    assert (row["short_kernels"], row["unqueued"], row["before_call"]) == (1, 1, 0)
    assert row["unqueued_share"] == pytest.approx(1 / 3)
    # Depth: 1 in [10, 20) and [40, 120), 0 in [20, 40).
    assert (row["depth_max"], row["depth_mean"]) == (1, pytest.approx(90 / 110))


def test_concurrency_is_the_time_by_number_of_busy_streams(tmp_path: Path) -> None:
    built = Export().kernel(0, 100, stream=7).kernel(50, 80, stream=8).kernel(60, 70, stream=8)
    found = nd.launches(opened(built.kernel(150, 200, stream=9), tmp_path)).extra["concurrency"]
    by_count = dict(found.select("streams", "ns").iter_rows())
    assert by_count == {0: 50, 1: 120, 2: 30}
    assert found["share"].sum() == 1


def test_collectives_cost_what_the_last_rank_needs(tmp_path: Path) -> None:
    """GPU 1 arrives early and waits for GPU 0, twice."""
    built = Export()
    for turn in (0, 1_000):
        built.kernel(turn + 100, turn + 200, 0, 7, pid=10, name="gemm")
        built.kernel(turn + 300, turn + 350, 0, 7, pid=10, name=ALL_REDUCE)
        built.kernel(turn + 100, turn + 140, 1, 7, pid=20, name="gemm")
        built.kernel(turn + 110, turn + 350, 1, 8, pid=20, name=ALL_REDUCE)
    result = nd.communication(opened(built, tmp_path))
    rows = {row["gpu"]: row for row in result.frame.iter_rows(named=True)}
    assert {row["operation"] for row in rows.values()} == {"AllReduce"}
    assert (rows[0]["total_ns"], rows[0]["wait_ns"]) == (100, 0)
    assert (rows[1]["total_ns"], rows[1]["wait_ns"]) == (480, 380)
    assert (rows[1]["exposed_ns"], rows[1]["overlapped_ns"]) == (420, 60)
    assert result.extra["straggler"] == 0
    states = nd.info(opened(built, tmp_path)).frame
    assert result.extra["gpus"]["exposed_ns"].to_list() == states["comm_ns"].to_list()


def test_ranks_with_unequal_counts_are_not_matched(tmp_path: Path) -> None:
    built = Export().kernel(0, 10, 0, pid=10, name=ALL_REDUCE)
    built.kernel(0, 20, 1, pid=20, name=ALL_REDUCE).kernel(30, 50, 1, pid=20, name=ALL_REDUCE)
    result = nd.communication(opened(built, tmp_path))
    assert result.frame["wait_ns"].to_list() == [None, None]
    assert result.extra["straggler"] is None


def test_groups_of_kernels_are_totalled_and_may_be_alone(tmp_path: Path) -> None:
    built = Export().kernel(0, 100, name="flash_fwd").kernel(50, 150, stream=8, name="fmha_bwd")
    trace = opened(built.kernel(140, 200, stream=9, name="gemm"), tmp_path)
    groups = nd.kernels(trace, groups=parse_groups(["attention=flash|fmha"])).extra["groups"]
    rows = {row["group"]: row for row in groups.iter_rows(named=True)}
    attention = rows["attention"]
    assert (attention["calls"], attention["total_ns"], attention["exposed_ns"]) == (2, 200, 140)
    assert rows["(no group)"]["exposed_ns"] == 50
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)


def test_groups_from_options_and_files(tmp_path: Path) -> None:
    file = tmp_path / "groups.toml"
    file.write_text('[groups]\nattention = "flash|fmha"\n')
    assert parse_groups([str(file), "b=x=y"]) == {"attention": "flash|fmha", "b": "x=y"}
    for wrong in ("attention", "=x", "a="):
        with pytest.raises(nd.UsageError):
            parse_groups([wrong])
    with pytest.raises(nd.InputError):
        parse_groups([str(tmp_path / "absent.toml")])
    file.write_text("groups = 3")
    with pytest.raises(nd.InputError):
        parse_groups([str(file)])
    with pytest.raises(nd.UsageError):
        nd.kernels(opened(Export().kernel(0, 10), tmp_path), groups={"a": "("})


@pytest.mark.parametrize(
    ("name", "host", "peer"),
    [
        ("NVIDIA A100-SXM4-80GB", 31.5, 300.0),
        ("NVIDIA H100 80GB HBM3", 63.0, 450.0),
        ("NVIDIA H100 PCIe", 63.0, 300.0),
        ("NVIDIA GH200 480GB", 450.0, 450.0),
        ("Tesla V100-SXM2-16GB", 15.75, 150.0),
        ("NVIDIA GeForce RTX 3090", 31.5, 56.25),
        ("Tesla T4", 15.75, None),
        ("NVIDIA L4", 31.5, None),
    ],
)
def test_links_by_product_name(name: str, host: float, peer: float | None) -> None:
    peaks = link_peaks(name)
    assert peaks is not None
    assert (peaks.host_gbps, peaks.peer_gbps) == (host, peer)


def test_an_unknown_product_has_no_peak() -> None:
    assert link_peaks("Some GPU 9000") is None
    assert link_peaks(None) is None


def test_ceilings_come_from_large_copies_of_the_run(tmp_path: Path) -> None:
    built, size = Export().gpu(0, "NVIDIA A100-SXM4-80GB"), 16 << 20
    for at, duration in enumerate((1_000_000, 2_000_000)):
        built.copy(at * 10_000_000, at * 10_000_000 + duration, size=size)
    built.copy(50_000_000, 50_000_001, size=1_000)
    kinds = nd.memcpy(opened(built, tmp_path)).extra["kinds"].row(0, named=True)
    assert kinds["ceiling_gbps"] == size / 2_000_000
    assert kinds["peak_gbps"] == 31.5
    option = nd.memcpy(opened(built, tmp_path), link_peak_gbps=20.0).extra["kinds"]
    assert option["peak_gbps"].to_list() == [20.0]
