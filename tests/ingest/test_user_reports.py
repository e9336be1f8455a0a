"""What users of such tools ran into, as far as reading is concerned; numbers are the reports'."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import polars as pl
import pytest

from fixtures.builder import KERNEL, MEMCPY, MEMSET, RUNTIME, SYNCHRONIZATION, Export
from fixtures.ids import global_pid, global_tid
from nsys_deepprof.analyses.info import info
from nsys_deepprof.analyses.trust import capture_warnings
from nsys_deepprof.dataset import convert
from nsys_deepprof.errors import InputError
from nsys_deepprof.ids import pid_of
from nsys_deepprof.opening import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nsys_deepprof.trace import Trace


@pytest.fixture(params=["direct", "dataset"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Export], Trace]:
    """Write an export and open it: itself, or the dataset made of it."""
    number = iter(range(100))

    def open_(export: Export) -> Trace:
        path = export.write(tmp_path / f"run{next(number)}.sqlite")
        return open_trace(path if request.param == "direct" else convert(path).path)

    return open_


def test_1_calls_and_no_gpu_work(opened: Callable[[Export], Trace]) -> None:
    export = Export().api(0, 5).api(10, 15).api(20, 25, name="cudaGetDeviceCount_v3020")
    trace = opened(export)
    result = info(trace)
    assert result.extra["status"] == "no_gpu_activity"
    assert result.extra["api_calls"] == 3
    assert result.frame.height == 0
    kernels = trace.table("kernels")
    assert kernels.height == 0
    assert kernels.schema["start_ns"] == pl.Int64
    assert isinstance(kernels.schema["name"], pl.Categorical)


@pytest.mark.parametrize("absent", [MEMCPY, MEMSET, "NVTX_EVENTS", SYNCHRONIZATION, RUNTIME])
def test_2_an_optional_table_is_missing(opened: Callable[[Export], Trace], absent: str) -> None:
    export = Export().launch((0, 5), (10, 20)).launch((6, 9), (20, 30))
    export.copy(40, 50).memset(60, 70).nvtx(0, 100, text="r").sync(70, 80)
    result = info(opened(export.without(absent)))
    assert result.frame["kernels"].to_list() == [2]
    assert result.frame["compute_ns"].to_list() == [20]
    assert absent in [skip["table"] for skip in result.extra["skipped"]]


def test_3_tables_without_rows(opened: Callable[[Export], Trace]) -> None:
    trace = opened(Export(all_tables=True))
    assert info(trace).extra["status"] == "no_gpu_activity"
    schema = trace.table("kernels").schema
    assert (schema["start_ns"], schema["end_ns"]) == (pl.Int64, pl.Int64)


def test_5_nvtx_names(opened: Callable[[Export], Trace]) -> None:
    export = Export().nvtx(0, 9, text="a").nvtx(1, 8, text_id="b").nvtx(2, 7)
    export.nvtx(3, 6, text_id=99)
    names = opened(export).table("nvtx_ranges")["name"].to_list()
    assert names == ["a", "b", "<unnamed>", "<unnamed>"]
    without = Export().nvtx(0, 9, text="a").without("NVTX_EVENTS", "textId")
    assert opened(without).table("nvtx_ranges")["name"].to_list() == ["a"]


def test_6_marks_and_definitions_are_no_ranges(opened: Callable[[Export], Trace]) -> None:
    export = Export().nvtx(100, 200, text="a").nvtx(150, None, 34, text="mark")
    export.nvtx(0, None, 75, text="CCCL").nvtx(0, None, 34, text="at zero")
    frame = opened(export).table("nvtx_ranges")
    assert frame.filter(pl.col("kind") == "push_pop").height == 1
    marks = frame.filter(pl.col("kind") == "mark")
    assert marks.select("start_ns", "end_ns", "open").rows() == [(0, 0, False), (150, 150, False)]


def test_7_a_required_column_is_missing(tmp_path: Path) -> None:
    path = Export().kernel(0, 1).without(KERNEL, "correlationId").write(tmp_path / "x.sqlite")
    with pytest.raises(InputError, match=rf"{KERNEL} has no column correlationId") as caught:
        convert(path)
    assert "\n" not in caught.value.line()
    assert os.listdir(tmp_path) == ["x.sqlite"]


def test_7_unknown_columns_and_versions(opened: Callable[[Export], Trace]) -> None:
    extra = Export("3.4").kernel(0, 10).extra_column(KERNEL, "greenContextId")
    assert opened(extra).table("kernels").height == 1
    bare = opened(Export(metadata=False).kernel(0, 10))
    assert (bare.capture.nsys_version, bare.capture.schema_version) == (None, None)
    future = opened(Export(schema_version="99.0.0").kernel(0, 10))
    assert future.capture.schema_version == "99.0.0"
    assert any("99.0.0" in warning for warning in capture_warnings(future))


def test_9_a_mistyped_path_stays_absent_and_a_good_file_unchanged(tmp_path: Path) -> None:
    typo = tmp_path / "nowhere" / "typo.sqlite"
    for use in (open_trace, convert):
        with pytest.raises(InputError, match="no such file"):
            use(typo)
    assert os.listdir(tmp_path) == []
    path = Export().kernel(0, 10).write(tmp_path / "good.sqlite")
    before = hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns
    info(open_trace(path))
    convert(path)
    assert (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before
    assert sorted(os.listdir(tmp_path)) == ["good.deepprof", "good.sqlite"]


def test_11_correlations_of_two_processes(opened: Callable[[Export], Trace]) -> None:
    export = Export().kernel(100, 200, 0, 7, 5, 10, "a").kernel(300, 400, 1, 7, 5, 20, "b")
    export.api(10, 20, 10, 10, 5).api(250, 260, 20, 20, 5)
    assert info(opened(export)).extra["unmatched_kernels"] == 0


def test_12_ids(opened: Callable[[Export], Trace]) -> None:
    assert global_pid(113) == 281476872536064
    assert global_tid(113, 113) == 281476872536177
    export = Export().kernel(0, 1, pid=113, vm=1).kernel(2, 3, pid=113, vm=2)
    export.kernel(4, 5, pid=4194303)
    trace = opened(export)
    pids = trace.table("kernels").select(pid_of(pl.col("global_pid")))["global_pid"]
    assert pids.to_list() == [113, 113, 4194303]
    assert trace.table("processes").height == 3


def test_14_graphs_are_busy(opened: Callable[[Export], Trace]) -> None:
    export = Export().graph(0, 1000, 0, 7, 1, 10, 109).graph(1100, 2100, 0, 7, 2, 10, 109)
    row = info(opened(export)).frame.row(0, named=True)
    assert (row["compute_ns"], row["idle_ns"], row["kernels"]) == (2000, 100, 0)
    both = info(opened(export.kernel(1, 900, 0, 7, 1, 10, "a"))).frame.row(0, named=True)
    assert (both["compute_ns"], both["kernels"]) == (2000, 1)


def test_18_19_20_streams_of_one_device(opened: Callable[[Export], Trace]) -> None:
    export = Export().kernel(1, 1000, stream=7).kernel(50000, 51000, stream=7)
    assert info(opened(export.kernel(1, 51000, stream=8))).frame["idle_ns"].to_list() == [0]
    two = Export().kernel(1, 100000, stream=7).kernel(1, 100000, stream=13)
    row = info(opened(two)).frame.row(0, named=True)
    assert (row["utilization"], row["kernel_sum_ns"]) == (1.0, 2 * 99999)
    copied = Export().kernel(1, 10).kernel(24, 30).copy(10, 24).sync(0, 30)
    row = info(opened(copied)).frame.row(0, named=True)
    assert (row["idle_ns"], row["copy_ns"]) == (0, 14)


def test_23_stream_numbers_of_several_gpus(opened: Callable[[Export], Trace]) -> None:
    export = Export()
    for device in (1, 2, 3):
        export.kernel(1, 87, device, 17).kernel(99, 100, device, 17)
    rows = info(opened(export)).frame.select("gpu", "compute_ns", "window_ns").rows()
    assert rows == [(1, 87, 99), (2, 87, 99), (3, 87, 99)]


def test_24_overlap_in_a_stream(opened: Callable[[Export], Trace]) -> None:
    export = Export().kernel(1, 100).kernel(90, 200).kernel(300, 5000).kernel(400, 500)
    result = info(opened(export))
    assert result.frame["kernels"].to_list() == [4]
    assert result.extra["suspect_durations"] == 1


def test_26_times_that_were_not_collected(opened: Callable[[Export], Trace]) -> None:
    export = Export().kernel(0, 0).kernel(0, 0).kernel(1000000000, 1000100000)
    result = info(opened(export.kernel(1000150000, 1000250000)))
    row = result.frame.row(0, named=True)
    assert (row["window_ns"], row["idle_ns"]) == (250000, 50000)
    assert result.extra["invalid_timestamps"] == 2


def test_28_nanoseconds_stay(opened: Callable[[Export], Trace]) -> None:
    kernels = opened(Export().kernel(100700, 100900)).table("kernels")
    assert (kernels["end_ns"] - kernels["start_ns"]).to_list() == [200]


def test_29_clocks_that_start_late_or_below_zero(opened: Callable[[Export], Trace]) -> None:
    export = Export().nvtx(-500, 100, text="early").kernel(50, 60, correlation=1)
    trace = opened(export.api(80, 90, correlation=1))
    assert trace.table("nvtx_ranges")["start_ns"].to_list() == [-500]
    assert trace.span_ns() == (-500, 100)


def test_39_open_ranges(opened: Callable[[Export], Trace]) -> None:
    export = Export().nvtx(5, None, text="outer").nvtx(10, 20, text="inner").kernel(900, 1000)
    frame = opened(export).table("nvtx_ranges").select("name", "end_ns", "open")
    assert frame.rows() == [("outer", 1000, True), ("inner", 20, False)]
    late = opened(Export().kernel(0, 10).nvtx(50, None, text="later than all else"))
    assert late.table("nvtx_ranges").select("start_ns", "end_ns").rows() == [(50, 50)]


def test_40_start_end_ranges(opened: Callable[[Export], Trace]) -> None:
    export = Export().nvtx(0, 50, 60, text="a").nvtx(20, 70, 60, text="b")
    frame = opened(export.nvtx(30, 80, 60, text="c", end_tid=7)).table("nvtx_ranges")
    assert frame["kind"].to_list() == ["start_end"] * 3
    assert frame["end_global_tid"].to_list() == [None, None, global_tid(1000, 7)]


def test_41_names_that_differ_only_at_their_end(opened: Callable[[Export], Trace]) -> None:
    long = "void cutlass::Kernel<" + "x" * 3000
    export = Export().kernel(0, 1, name=long + "1").kernel(2, 3, name=long + "2")
    names = opened(export.kernel(4, 5, name=999)).table("kernels")["name"].to_list()
    assert names == [long + "1", long + "2", "<unknown:999>"]


def test_43_devices_that_do_not_start_at_0(opened: Callable[[Export], Trace]) -> None:
    export = Export().kernel(1, 2, device=1).kernel(1, 2, device=3)
    assert info(opened(export)).frame["gpu"].to_list() == [1, 3]


def test_46_runs_of_one_name(tmp_path: Path) -> None:
    prints: dict[str, str] = {}
    for folder, kernels in (("a", 1), ("b", 2), ("c", 1)):
        export = Export()
        for start in range(kernels):
            export.kernel(10 * start + 1, 10 * start + 5)
        (tmp_path / folder).mkdir()
        done = convert(export.write(tmp_path / folder / "report1.sqlite"))
        assert done.path.parent == tmp_path / folder
        manifest = json.loads((done.path / "manifest.json").read_text())
        prints[folder] = manifest["source"]["fingerprint"]
        assert manifest["rows"]["kernels"] == kernels
    assert prints["a"] == prints["c"] != prints["b"]


def test_49_nulls_for_any_number_of_rows(opened: Callable[[Export], Trace]) -> None:
    export = Export()
    for start in range(1, 151):
        export.kernel(start, start + 1, graphNodeId=None)
    nodes = opened(export.kernel(200, 201, graphNodeId=1 << 32)).table("kernels")["graph_node_id"]
    assert nodes.to_list() == [None] * 150 + [1 << 32]


def test_49_nulls_for_more_rows_than_any_batch(tmp_path: Path) -> None:
    rows = 100_000
    path = Export().kernel(1, 2, name="k").nvtx(1, 2, text=None).write(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        for table, column, value in (
            (KERNEL, "graphNodeId", "5"),
            ("NVTX_EVENTS", "text", "'late'"),
            ("NVTX_EVENTS", "textId", "1"),
        ):
            names = [r[1] for r in connection.execute(f"PRAGMA table_info({table})")]
            ends = {"start": "i", "end": "i + 1", column: f"CASE WHEN i = {rows} THEN {value} END"}
            rest = ", ".join(ends.get(name, f'"{name}"') for name in names)
            connection.execute(
                f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
                f" INSERT INTO {table} SELECT {rest} FROM n, (SELECT * FROM {table} LIMIT 1)"
            )
        connection.commit()
    for trace in (open_trace(path), open_trace(convert(path).path)):
        nodes = trace.table("kernels")["graph_node_id"]
        assert (nodes.len(), nodes.drop_nulls().to_list()) == (rows, [5])
        names = trace.table("nvtx_ranges")["name"].value_counts()
        assert dict(names.rows()) == {"late": 1, "k": 1, "<unnamed>": 2 * rows - 3}


def test_51_columns_of_nulls_have_their_type(tmp_path: Path) -> None:
    frames = []
    for name, node in (("a", None), ("b", 7)):
        path = Export().kernel(1, 2, graphNodeId=node).write(tmp_path / f"{name}.sqlite")
        frames.append(pl.scan_parquet(convert(path).path / "kernels.parquet"))
    assert pl.concat(frames).collect()["graph_node_id"].to_list() == [None, 7]


def test_52_a_file_that_changed_behind_its_time(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    Export().kernel(1, 2).kernel(3, 4).write(path)
    status = path.stat()
    assert convert(path).rows["kernels"] == 2
    assert convert(path).up_to_date
    Export().kernel(1, 2).kernel(3, 4).kernel(5, 6).kernel(7, 8).write(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(Exception, match="other content"):
        convert(path)
    assert convert(path, force=True).rows["kernels"] == 4
    path.touch()
    assert convert(path).up_to_date
