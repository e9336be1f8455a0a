"""What users of such tools ran into, for gaps, copies, kernels, launches and findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import nsys_deepprof as nd
from fixtures.builder import Export

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    Opened: TypeAlias = Callable[[Export], nd.Trace]

MS = 1_000_000


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return lambda built: nd.open_trace(built.write(tmp_path / "x.sqlite"))


def test_equal_correlation_ids_of_two_processes_are_two_launches(opened: Opened) -> None:
    built = (
        Export()
        .kernel(100, 200, 0, 7, 5, 10, "a")
        .kernel(300, 400, 1, 7, 5, 20, "b")
        .api(10, 20, 10, 10, 5)
        .api(250, 260, 20, 20, 5)
    )
    rows = nd.kernels(opened(built)).frame
    assert dict(rows.select("name", "queue_mean_ns").iter_rows()) == {"a": 80, "b": 40}
    assert rows["calls"].sum() == 2


def test_whole_graphs_are_busy_and_said_to_hide_kernels(opened: Opened) -> None:
    built = Export().graph(0, 1000, correlation=1).graph(1100, 2100, correlation=2)
    built.api(0, 5, correlation=1, name="cudaGraphLaunch_v10000")
    built.api(1050, 1060, correlation=2, name="cudaGraphLaunch_v10000")
    trace = opened(built)
    gaps = nd.gaps(trace, min_gap_ns=0).frame
    assert gaps["duration_ns"].to_list() == [100]
    assert (gaps["host_ns"][0], gaps["launch_ns"][0]) == (50, 50)
    kernels = nd.kernels(trace)
    assert kernels.frame.height == 0
    assert kernels.extra["graphs"]["calls"].sum() == 2
    assert any("traced as a whole" in note for note in kernels.notes)
    assert any("not recorded" in w for w in nd.findings(trace).extra["warnings"])


def test_graph_launches_are_launches(opened: Opened) -> None:
    built = Export()
    built.api(0, 10, correlation=1, name="cudaGraphLaunch_v10000").kernel(20, 40, correlation=1)
    built.api(20, 30, correlation=2, name="cudaLaunchKernel_v7000").kernel(50, 60, correlation=2)
    assert nd.launches(opened(built)).frame["launched"].to_list() == [2]


def test_one_graph_launch_of_many_kernels_is_one_call(opened: Opened) -> None:
    built = Export()
    for turn in range(10):
        at = turn * 1_000
        built.api(at, at + 50, correlation=turn + 1, name="cudaGraphLaunch_v10000")
        for node, name in enumerate("abc", start=1):
            begin = at + 100 * node
            built.kernel(begin, begin + 90, correlation=turn + 1, name=name, graphNodeId=node)
    row = nd.launches(opened(built)).frame.row(0, named=True)
    assert (row["kernels"], row["launched"], row["calls"]) == (30, 30, 10)
    assert row["api_ns"] == 10 * 50


def test_gaps_are_those_of_the_device_not_of_a_stream(opened: Opened) -> None:
    built = Export().kernel(0, 1000, stream=7).kernel(50_000, 51_000, stream=7)
    trace = opened(built.kernel(0, 51_000, stream=8))
    assert nd.gaps(trace, min_gap_ns=0).frame.height == 0
    assert nd.gaps(trace).extra["all_total_ns"] == 0


def test_a_copy_between_kernels_is_copy_and_not_idle(opened: Opened) -> None:
    built = Export().kernel(0, 10 * MS).kernel(24 * MS, 30 * MS).sync(0, 30 * MS)
    without = opened(built)
    assert nd.gaps(without).extra["all_total_ns"] == 14 * MS


def test_time_covered_by_copies_only_is_exposed(opened: Opened) -> None:
    built = Export().kernel(0, 10 * MS).copy(10 * MS, 24 * MS).kernel(24 * MS, 30 * MS)
    trace = opened(built.sync(0, 30 * MS))
    assert nd.gaps(trace).extra["all_total_ns"] == 0
    assert nd.memcpy(trace).extra["exposed_ns"] == 14 * MS


def test_the_total_of_listed_gaps_is_that_of_the_list(opened: Opened) -> None:
    built, now = Export(), 0
    for length in [2 * MS] * 56 + [MS // 10] * 4:
        built.kernel(now, now + 1_000)
        now += 1_000 + length
    result = nd.gaps(opened(built.kernel(now, now + 1_000)), min_gap_ns=MS)
    assert (result.extra["count"], result.extra["total_ns"]) == (56, 112 * MS)
    assert result.extra["total_ns"] == result.frame["duration_ns"].sum()
    assert (result.extra["all_count"], result.extra["all_total_ns"]) == (60, 112_400_000)


def test_short_gaps_are_counted_and_not_listed(opened: Opened) -> None:
    built, now = Export(), 0
    for length in [5_000] * 20 + [2 * MS]:
        built.kernel(now, now + 1_000)
        now += 1_000 + length
    result = nd.gaps(opened(built.kernel(now, now + 1_000)))
    assert result.frame.height == 1
    assert result.extra["all_total_ns"] == 2_100_000
    assert result.extra["min_gap_ns"] > 0
    assert any("20 gaps" in note for note in result.notes)


def test_rows_without_times_make_no_gap(opened: Opened) -> None:
    built = Export().kernel(0, 0).kernel(0, 0)
    built.kernel(1_000_000_000, 1_000_100_000).kernel(1_000_150_000, 1_000_250_000)
    assert nd.gaps(opened(built)).frame["duration_ns"].to_list() == [50_000]


def test_a_kernel_before_its_own_launch_has_no_delay(opened: Opened) -> None:
    built = Export().api(80, 90, correlation=1).kernel(50, 60, correlation=1)
    trace = opened(built)
    assert nd.kernels(trace).frame["queue_mean_ns"].to_list() == [None]
    row = nd.launches(trace).frame.row(0, named=True)
    assert (row["before_call"], row["queue_median_ns"]) == (1, None)


def test_asynchronous_by_name_and_blocking_by_memory(opened: Opened) -> None:
    name = "cudaMemcpyAsync_v3020"
    built = Export().kernel(0, MS)
    built.api(100, 1_000_500, correlation=1, name=name)
    built.copy(MS, MS + 400, correlation=1, kind="DtoH", src="device", dst="pageable")
    built.api(100, 5_100, correlation=2, name=name)
    built.copy(MS + 400, MS + 800, correlation=2, kind="DtoH", src="device", dst="pinned")
    result = nd.memcpy(opened(built))
    assert result.frame["blocking"].to_list() == [["pageable"], []]
    assert nd.memcpy(opened(built), only_blocking=True).frame.height == 1
    assert result.extra["blocking_copies"] == 1


@pytest.mark.parametrize(
    ("api", "blocks"),
    [
        ("cudaMemcpy_v3020", True),
        ("cudaMemcpy2D_v3020", True),
        ("cudaMemcpyToSymbol_v3020", True),
        ("cuMemcpyDtoH_v2", True),
        ("cuMemcpyDtoH_v2_ptds", True),
        ("cudaMemcpyAsync_v3020_ptsz", False),
        ("cudaStreamWaitEvent_v3020", False),
        ("cudaEventRecord_v3020", False),
    ],
)
def test_blocking_calls_by_exact_name(opened: Opened, api: str, blocks: bool) -> None:
    built = Export().api(0, 10_000, correlation=1, name=api)
    built.copy(2_000, 9_000, correlation=1, kind="DtoH", src="device", dst="pinned")
    (blocking,) = nd.memcpy(opened(built)).frame["blocking"].to_list()
    assert blocking == (["sync_api"] if blocks else [])


def test_a_device_to_device_copy_does_not_wait_for_the_host(opened: Opened) -> None:
    built = Export().api(0, 10_000, correlation=1, name="cudaMemcpy_v3020")
    built.copy(2_000, 9_000, correlation=1, kind="DtoD", src="device", dst="device")
    row = nd.memcpy(opened(built)).frame.row(0, named=True)
    assert (row["blocking"], row["host_blocked_ns"]) == ([], 0)


@pytest.mark.parametrize("enums", [True, False])
def test_every_copy_kind_has_its_own_group(tmp_path: Path, enums: bool) -> None:
    built = Export(enums=enums)
    for at, kind in enumerate([*range(14), 77]):
        built.copy(at * 1_000, at * 1_000 + 500, size=100, kind=kind)
    result = nd.memcpy(nd.open_trace(built.write(tmp_path / "x.sqlite")))
    kinds = result.extra["kinds"]
    assert (kinds.height, kinds["bytes"].sum(), kinds["copies"].sum()) == (15, 1_500, 15)
    assert "DtoD" in kinds["kind"].to_list()
    assert "kind_77" in kinds["kind"].to_list()


def test_migrations_are_no_blocking_copies(opened: Opened) -> None:
    built = Export().kernel(0, 1_000).api(0, 500, correlation=0, name="cudaMemcpy_v3020")
    trace = opened(built.migration(2_000, 3_000, cause=2).migration(4_000, 5_000, cause=3))
    rows = nd.memcpy(trace)
    assert rows.frame["blocking"].to_list() == [[], []]
    assert rows.frame["stream_id"].to_list() == [None, None]
    assert rows.frame["host_blocked_ns"].to_list() == [None, None]
    assert rows.frame["api"].to_list() == [None, None]
    causes = rows.extra["migrations"].select("cause", "migrations").rows()
    assert sorted(causes) == [("coherence", 1), ("prefetch", 1)]
    gaps = nd.gaps(trace, min_gap_ns=0).frame
    assert gaps["cause"].to_list() == ["unknown", "unknown"]


def test_names_are_grouped_before_they_are_cut(opened: Opened) -> None:
    stem = "void cutlass::Kernel<" + "x" * 3_000
    built = Export()
    for at, name in enumerate((f"{stem}1>", f"{stem}2>")):
        built.kernel(at * 100, at * 100 + 50, name=name, short_name="Kernel")
    trace = opened(built.kernel(300, 350, name=999, short_name="Kernel"))
    assert nd.kernels(trace).frame.height == 3
    assert nd.kernels(trace, short_names=True).frame["name"].to_list() == ["Kernel"]


def test_without_calls_every_cause_is_unknown_and_said_so(opened: Opened) -> None:
    built = Export().kernel(0, MS).kernel(2 * MS, 3 * MS).without("CUPTI_ACTIVITY_KIND_RUNTIME")
    trace = opened(built)
    gaps = nd.gaps(trace).frame
    assert (gaps["cause"][0], gaps["unknown_ns"][0]) == ("unknown", MS)
    found = nd.findings(trace)
    assert found.frame.height == 0
    assert any("causes of idle gaps are unknown" in w for w in found.extra["warnings"])
    assert any("without a cause" in note for note in found.notes)


@pytest.mark.parametrize(
    "table",
    ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "NVTX_EVENTS",
     "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_RUNTIME", "OSRT_API"],
)  # fmt: skip
def test_an_absent_table_leaves_kernel_totals_alone(opened: Opened, table: str) -> None:
    built = Export()
    built.launch((0, 10), (20, 120)).launch((130, 140), (200, 260))
    built.copy(300, 320, correlation=90).memset(330, 340).nvtx(0, 400, text="step")
    built.sync(0, 5).os_call(50, 60)
    trace = opened(built.without(table))
    assert nd.kernels(trace).frame.select("calls", "total_ns").rows() == [(2, 160)]
    for analysis in (nd.gaps, nd.memcpy, nd.launches, nd.communication, nd.findings):
        assert analysis(trace).command == analysis.__name__


def test_empty_captures_have_full_schemas_and_say_why(opened: Opened) -> None:
    built = Export().api(0, 10, name="cudaGetDeviceCount_v3020")
    trace = opened(built)
    for analysis in (nd.gaps, nd.memcpy, nd.kernels, nd.launches, nd.communication, nd.findings):
        result = analysis(trace)
        assert result.frame.height == 0
        assert result.frame.width > 8
        assert pl.Null not in result.frame.dtypes
        assert result.notes, analysis.__name__
    assert nd.findings(trace).extra["status"] == "no_gpu_activity"


def test_an_overhead_that_is_the_drivers_is_not_blamed_on_the_profiler(opened: Opened) -> None:
    built = Export().kernel(0, MS, correlation=1).api(0, 10, correlation=1)
    built.cupti_overhead(2 * MS, 9 * MS, name="Lazy Function Loading", kind=7)
    built.api(10 * MS, 10 * MS + 10, correlation=2).kernel(10 * MS + 20, 11 * MS, correlation=2)
    trace = opened(built)
    gap = nd.gaps(trace).frame.row(0, named=True)
    assert (gap["cause"], gap["cause_name"]) == ("profiler", "Lazy Function Loading")
    assert gap["driver_load_ns"] == gap["profiler_ns"] == 7 * MS
    found = nd.findings(trace)
    assert "module_loading" in found.frame["kind"].to_list()
    assert "profiler" not in found.frame["kind"].to_list()
    assert not any("profiler itself" in w for w in found.extra["warnings"])
