"""Values that mislead: each was found in real exports."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fixtures.builder import GRAPH_TRACE, KERNEL, MEMCPY, Export
from fixtures.ids import global_pid, global_tid
from nsys_deepprof.analyses.info import info
from nsys_deepprof.gpus import HOST_FIRST_DEVICE
from nsys_deepprof.opening import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from nsys_deepprof.trace import Trace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


def opened(export: Export, path: Path) -> Trace:
    return open_trace(export.write(path))


def gpus(trace: Trace) -> list[tuple[int, int, int, str | None]]:
    return trace.table("gpus").select("gpu", "pid", "device_id", "name").rows()


def test_reversed_ordinals_map_to_the_physical_gpu(path: Path) -> None:
    export = Export("3.20").gpu(0, "first").gpu(1, "second")
    for pid, device, gpu in ((10, 0, 1), (10, 1, 0), (20, 0, 0), (20, 1, 1)):
        export.device_map(pid, device, gpu)
    export.kernel(0, 10, device=0, pid=10).kernel(0, 10, device=0, pid=20)
    assert gpus(opened(export, path)) == [(1, 10, 0, "second"), (0, 20, 0, "first")]


def test_before_the_map_the_table_says_which_ordinal_a_gpu_has(path: Path) -> None:
    export = Export("3.4").gpu(0, "display", cuda_device=1).gpu(1, "compute", cuda_device=0)
    export.kernel(0, 10, device=0)
    assert gpus(opened(export, path)) == [(0, 1000, 0, "compute")]


def test_gpus_that_are_no_cuda_devices_and_devices_without_work_have_no_row(path: Path) -> None:
    export = Export("3.20").gpu(0, "used").gpu(1, "idle").gpu(2, "no CUDA", cuDevice=None)
    export.device_map(1000, 0, 0).device_map(1000, 1, 1).kernel(0, 10)
    assert gpus(opened(export, path)) == [(0, 1000, 0, "used")]


def test_two_ranks_that_each_see_device_0_are_two_gpus_unless_mapped(path: Path) -> None:
    export = Export("3.4").kernel(0, 10, pid=10).kernel(0, 10, pid=20)
    assert [row[:3] for row in gpus(opened(export, path))] == [(0, 10, 0), (1, 20, 0)]
    shared = Export("3.20").kernel(0, 10, pid=10).kernel(0, 10, pid=20)
    shared.device_map(10, 0, 3).device_map(20, 0, 3)
    assert [row[:3] for row in gpus(opened(shared, path))] == [(3, 10, 0), (3, 20, 0)]


def test_the_oldest_exports_name_gpus_by_device(path: Path) -> None:
    export = Export("2020").gpu(0, "Tesla T4").kernel(0, 10)
    assert gpus(opened(export, path)) == [(0, 1000, 0, "Tesla T4")]


def test_a_graph_that_starts_on_the_host_is_put_on_the_only_device(path: Path) -> None:
    nowhere = {"device": HOST_FIRST_DEVICE, "context": HOST_FIRST_DEVICE}
    export = Export().graph(0, 10, device=2).graph(20, 30, **nowhere).kernel(40, 50, device=2)
    trace = opened(export, path)
    assert trace.table("graph_launches")["device_id"].to_list() == [2, 2]
    assert trace.facts("graph_launches").dropped == {}
    export.kernel(60, 70, device=1)
    trace = opened(export, path)
    assert trace.table("graph_launches")["device_id"].to_list() == [2]
    assert trace.facts("graph_launches").dropped == {"no_device": 1}


def test_a_graph_without_times_is_not_collected(path: Path) -> None:
    trace = opened(Export().graph(0, 0).graph(5, 9), path)
    assert trace.table("graph_launches")["start_ns"].to_list() == [5]
    assert trace.facts("graph_launches").dropped == {"not_collected": 1}


def test_migrations_are_on_no_stream_and_have_no_call(path: Path) -> None:
    export = Export().api(0, 5, correlation=0, name="cudaMemcpy_v3020")
    for kind in ("UM HtoD", "UM DtoH", "UM DtoD"):
        export.migration(10, 20, kind=kind, cause=3)
    frame = opened(export, path).table("memcpys")
    assert frame["stream_id"].to_list() == [None] * 3
    assert frame["correlation_id"].to_list() == [None] * 3
    assert frame["migration_cause"].to_list() == ["prefetch"] * 3
    assert frame["kind"].to_list() == ["UM HtoD", "UM DtoH", "UM DtoD"]


def test_stream_0_of_a_copy_that_is_no_migration_stays_a_stream(path: Path) -> None:
    frame = opened(Export().copy(10, 20, stream=0, migrationCause=1), path).table("memcpys")
    assert frame.select("stream_id", "migration_cause").rows() == [(0, None)]


@pytest.mark.parametrize("enums", [False, True])
def test_copy_kinds_and_those_unknown_to_us(path: Path, enums: bool) -> None:
    export = Export(enums=enums)
    for kind in (*range(14), 77):
        export.copy(10 * kind, 10 * kind + 5, size=100, kind=kind, src=kind % 9)
    frame = opened(export, path).table("memcpys")
    assert frame["bytes"].sum() == 1500
    assert frame["kind"].n_unique() == 15
    assert frame["kind"].to_list()[8] == "DtoD"
    assert frame["kind"].to_list()[-1] == "kind_77"
    assert frame["src_kind"].to_list()[8] == "kind_8"


def test_kernels_outside_of_graphs_have_no_node(path: Path) -> None:
    frame = opened(Export().kernel(0, 10, graphNodeId=None, graphId=None), path).table("kernels")
    assert frame.select("graph_node_id", "graph_id").rows() == [(None, None)]


def test_the_last_name_of_a_thread_holds(path: Path) -> None:
    trace = opened(Export().thread(name="python").thread(name="loader"), path)
    assert trace.table("threads").select("tid", "name").rows() == [(1000, "loader")]


def test_old_and_new_metadata_table_side_by_side(path: Path) -> None:
    export = Export("3.4").extra_table("EXPORT_META_DATA", name="TEXT", value="TEXT")
    export.raw("EXPORT_META_DATA", name="EXPORT_SCHEMA_VERSION", value="2.9.1")
    assert opened(export, path).capture.schema_version == "3.4.0"


def test_tables_and_columns_of_other_tools_are_not_read(path: Path) -> None:
    export = Export().kernel(0, 10, name="a")
    export.extra_column(KERNEL, "kernel_name", "TEXT").extra_column(MEMCPY, "name", "TEXT")
    export.extra_table("CUPTI_ACTIVITY_KIND_KERNEL_BASE_STATS", count="INTEGER")
    assert opened(export, path).table("kernels")["name"].to_list() == ["a"]


def test_text_that_is_not_utf8_is_replaced(path: Path) -> None:
    Export().kernel(0, 10, name=5).nvtx(0, 9, text="x").process(name="p").write(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO StringIds VALUES (5, CAST(x'61FF62' AS TEXT))")
        connection.execute("UPDATE NVTX_EVENTS SET text = CAST(x'C3' AS TEXT)")
        connection.execute("UPDATE PROCESSES SET name = CAST(x'66FE' AS TEXT)")
        connection.execute("INSERT INTO META_DATA_EXPORT VALUES (CAST(x'FF' AS TEXT), 'v')")
        connection.commit()
    trace = open_trace(path)
    assert trace.table("kernels")["name"].to_list() == ["a\ufffdb"]
    assert trace.table("nvtx_ranges")["name"].to_list() == ["\ufffd"]
    assert trace.table("processes")["name"].to_list() == ["f\ufffd"]


def test_diagnostics_are_read_whatever_their_severity(path: Path) -> None:
    export = Export().diagnostic(5, 2, "late").diagnostic(3, 3, "early").kernel(0, 10)
    frame = opened(export, path).table("diagnostics")
    assert frame.rows() == [(3, 3, "early"), (5, 2, "late")]


def test_every_table_present_and_empty(path: Path) -> None:
    result = info(opened(Export(all_tables=True), path))
    assert result.extra["status"] == "no_gpu_activity"
    assert result.extra["api_calls"] == 0


def test_a_capture_that_starts_late(path: Path) -> None:
    start = 155_000_000_000
    trace = opened(Export().kernel(start, start + 10), path)
    assert trace.span_ns() == (start, start + 10)


def test_return_values_of_failed_calls_stay(path: Path) -> None:
    frame = opened(Export().api(0, 1, return_value=700), path).table("api_calls")
    assert frame["return_value"].to_list() == [700]


def test_hardware_and_vm_bits_keep_processes_apart(path: Path) -> None:
    export = Export("3.4").kernel(0, 10, pid=113, vm=1).kernel(0, 10, pid=113, vm=2)
    export.api(0, 5, pid=4194303, tid=4194303)
    trace = opened(export, path)
    ids = trace.table("kernels")["global_pid"].to_list()
    assert ids == [global_pid(113, vm=1), global_pid(113, vm=2)]
    assert trace.table("processes")["pid"].to_list() == [113, 113]
    assert trace.table("threads").select("global_tid", "pid", "tid").rows() == [
        (global_tid(4194303, 4194303), 4194303, 4194303)
    ]


def test_graph_rows_lack_columns_that_they_can_do_without(path: Path) -> None:
    export = Export().graph(0, 10).without(GRAPH_TRACE, "graphId", "graphExecId", "streamId")
    frame = opened(export, path).table("graph_launches")
    assert frame.select("graph_id", "graph_exec_id", "stream_id").rows() == [(None, None, None)]
