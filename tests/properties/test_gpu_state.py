"""GPU states against a painter that colours every single nanosecond."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nsys_deepprof as nd
from fixtures.builder import Export

KERNEL_NAMES = {
    "gemm": "compute",
    "void ncclKernel_AllReduce(int)": "comm",
    "NCCLDevKernel": "comm",
    "void nvshmem_put": "comm",
    "my_nccl_helper": "compute",
}
STATES = ("compute", "comm", "copy", "memset")

OPS = st.lists(
    st.tuples(
        st.sampled_from(["copy", "memset", "graph", *KERNEL_NAMES]),
        st.integers(min_value=1, max_value=80),
        st.integers(min_value=0, max_value=25),
        st.integers(min_value=0, max_value=1),
        st.integers(min_value=7, max_value=8),
    ),
    min_size=1,
    max_size=14,
)


def export(ops: list[tuple[str, int, int, int, int]]) -> Export:
    built = Export()
    for kind, start, length, device, stream in ops:
        place = (start, start + length, device, stream)
        match kind:
            case "copy":
                built.copy(*place)
            case "memset":
                built.memset(*place)
            case "graph":
                built.graph(*place)
            case name:
                built.kernel(*place, name=name)
    return built


def painted(ops: list[tuple[str, int, int, int, int]], device: int) -> dict[str, int] | None:
    mine = [(kind, s, s + n) for kind, s, n, dev, _ in ops if dev == device]
    if not mine:
        return None
    first, last = min(s for _, s, _ in mine), max(e for _, _, e in mine)
    counts = dict.fromkeys((*STATES, "idle"), 0)
    for instant in range(first, last):
        running = {
            {"graph": "compute", "copy": "copy", "memset": "memset"}.get(k) or KERNEL_NAMES[k]
            for k, s, e in mine
            if s <= instant < e
        }
        counts[next((s for s in STATES if s in running), "idle")] += 1
    return counts


@given(OPS)
@settings(max_examples=60, deadline=None)
def test_every_nanosecond_has_exactly_one_state(ops: list[tuple[str, int, int, int, int]]) -> None:
    with TemporaryDirectory() as folder:
        trace = nd.open_trace(export(ops).write(Path(folder) / "x.sqlite"))
        rows = {row["device_id"]: row for row in nd.info(trace).frame.iter_rows(named=True)}
    for device in (0, 1):
        want = painted(ops, device)
        if want is None:
            assert device not in rows
            continue
        got = rows[device]
        assert {s: got[f"{s}_ns"] for s in want} == want
        assert got["window_ns"] == sum(want.values())
        busy = want["compute"] + want["comm"]
        assert got["utilization"] == (busy / got["window_ns"] if got["window_ns"] else None)


@given(OPS, st.integers(min_value=-5, max_value=110), st.integers(min_value=1, max_value=60))
@settings(max_examples=60, deadline=None)
def test_a_window_holds_the_states_inside_it(
    ops: list[tuple[str, int, int, int, int]], start: int, length: int
) -> None:
    ops = [op for op in ops if op[3] == 0] or [("gemm", 1, 5, 0, 7)]
    with TemporaryDirectory() as folder:
        trace = nd.open_trace(export(ops).write(Path(folder) / "x.sqlite"))
        origin = trace.span_ns()[0]
        try:
            inside = nd.narrow(
                trace, from_ms=(start - origin) / 1e6, to_ms=(start + length - origin) / 1e6
            )
        except nd.UsageError:
            assert start + length <= origin or start > trace.span_ns()[1]
            return
        rows = nd.info(inside).frame
    first, last = min(op[1] for op in ops), max(op[1] + op[2] for op in ops)
    window = range(max(start, first), min(start + length, last))
    if not window:
        assert rows.height == 0
        return
    sums = rows.select(*(f"{s}_ns" for s in (*STATES, "idle")), "window_ns").row(0)
    assert sum(sums[:-1]) == sums[-1] == len(window)
    idle = sum(not any(s <= t < s + n for _, s, n, _, _ in ops) for t in window)
    assert sums[4] == idle


def test_utilisation_of_overlapping_streams_is_a_union(tmp_path: Path) -> None:
    built = Export().kernel(0, 100_000, stream=7).kernel(1, 100_000, stream=13)
    row = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite"))).frame.row(0, named=True)
    assert row["utilization"] == 1
    assert row["kernel_sum_ns"] == 199_999


def test_graphs_and_their_node_kernels_are_not_counted_twice(tmp_path: Path) -> None:
    built = Export().graph(0, 1000, correlation=1).graph(1100, 2100, correlation=2)
    row = nd.info(nd.open_trace(built.write(tmp_path / "a.sqlite"))).frame.row(0, named=True)
    assert (row["compute_ns"], row["idle_ns"]) == (2000, 100)
    built.kernel(0, 900, correlation=1)
    row = nd.info(nd.open_trace(built.write(tmp_path / "b.sqlite"))).frame.row(0, named=True)
    assert (row["compute_ns"], row["idle_ns"]) == (2000, 100)


def test_rows_with_no_time_are_kept_out_of_the_window_and_counted(tmp_path: Path) -> None:
    built = Export().kernel(0, 0).kernel(0, 0)
    built.kernel(1_000_000_000, 1_000_100_000).kernel(1_000_150_000, 1_000_250_000)
    result = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite")))
    row = result.frame.row(0, named=True)
    assert (row["window_ns"], row["idle_ns"]) == (250_000, 50_000)
    assert result.extra["invalid_timestamps"] == 2
    assert result.extra["dropped"] == {"kernels": {"not_collected": 2}}


def test_a_kernel_that_outlasts_its_successor_in_a_stream_is_suspect(tmp_path: Path) -> None:
    built = Export().kernel(1, 100).kernel(90, 200).kernel(300, 5000).kernel(400, 500)
    result = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite")))
    assert result.extra["suspect_durations"] == 1
    assert result.frame["kernels"].item() == 4


def test_ranks_that_each_see_device_0_are_two_gpus(tmp_path: Path) -> None:
    built = Export().kernel(0, 10, pid=10).kernel(0, 10, pid=20)
    frame = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite"))).frame
    assert frame.select("gpu", "pid", "device_id").rows() == [(0, 10, 0), (1, 20, 0)]


def test_processes_that_share_a_gpu_are_one_where_the_map_says_so(tmp_path: Path) -> None:
    built = Export().kernel(0, 10, pid=10).kernel(5, 20, pid=20)
    built.device_map(10, 0, 3).device_map(20, 0, 3)
    row = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite"))).frame.row(0, named=True)
    assert (row["gpu"], row["window_ns"], row["processes"]) == (3, 20, 2)


def test_states_of_real_traces_add_up_and_count_every_row(each_real_trace: Path) -> None:
    result = nd.info(nd.open_trace(each_real_trace))
    for row in result.frame.iter_rows(named=True):
        assert sum(row[f"{s}_ns"] for s in (*STATES, "idle")) == row["window_ns"]
    kept = result.frame.select(pl.sum("kernels", "memcpys", "memsets")).row(0)
    tables = ("KERNEL", "MEMCPY", "MEMSET")
    with sqlite3.connect(f"file:{each_real_trace}?mode=ro&immutable=1", uri=True) as raw:
        have = {name for (name,) in raw.execute("SELECT name FROM sqlite_master")}
        want = tuple(
            raw.execute(
                f"SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_{t}"
                ' WHERE "end" >= start AND NOT (start = 0 AND "end" = 0)'
            ).fetchone()[0]
            if f"CUPTI_ACTIVITY_KIND_{t}" in have
            else 0
            for t in tables
        )
    assert kept == want


def test_busy_graph_replay_is_not_idle(real_trace: object) -> None:
    assert callable(real_trace)
    row = nd.info(nd.open_trace(real_trace("llm_graph_replay_2024"))).frame.row(0, named=True)
    assert (row["compute_ns"], row["window_ns"]) == (7_811_219_965, 7_811_607_251)


@pytest.mark.parametrize("asked", [0, 2])
def test_an_absent_gpu_is_an_error_that_lists_those_present(tmp_path: Path, asked: int) -> None:
    trace = nd.open_trace(
        Export().kernel(0, 5, device=1).kernel(0, 5, device=3).write(tmp_path / "x.sqlite")
    )
    with pytest.raises(nd.UsageError, match=r"there: 1, 3"):
        nd.narrow(trace, gpus=[asked])
    assert nd.info(nd.narrow(trace, gpus=[3])).frame["gpu"].to_list() == [3]
