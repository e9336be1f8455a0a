"""The same work, written as every generation of nsys would, reads the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from fixtures.builder import Export
from fixtures.ids import global_pid, global_tid
from fixtures.schema import GENERATIONS, version_of
from nsys_deepprof.dataset import convert
from nsys_deepprof.opening import open_trace
from nsys_deepprof.trace import TABLES

if TYPE_CHECKING:
    from pathlib import Path

LATER_COLUMNS = {
    "kernels": ["graph_id"],
    "memcpys": ["copy_count"],
    "syncs": ["event_sync_id", "sync_type"],
    "cuda_events": ["event_sync_id"],
}
"""Columns that only some generations have, or whose numbers changed their meaning."""


def full_export(generation: str, **options: bool) -> Export:
    export = Export(generation, **options)
    export.session(1_700_000_000_000_000_000, duration_ns=5_000)
    export.process(1000, "python").thread(1000, 1000, "main").stream(7)
    export.gpu(0, "NVIDIA A100", cuda_device=0).device_map(1000, 0, 0)
    export.launch((100, 150), (200, 300), "void first<int>(int)", grid=(4, 2, 1))
    export.launch((160, 190), (300, 350), "second", graphNodeId=1 << 40)
    export.api(400, 480, correlation=77, name="cudaMemcpy_v3020", return_value=700)
    export.copy(410, 470, correlation=77, size=1 << 33, kind="DtoH", src="device", dst="pageable")
    export.migration(500, 520)
    export.memset(530, 535, correlation=78)
    export.sync(540, 600, correlation=79)
    export.cuda_event(correlation=80)
    export.nvtx(90, 650, text="step").nvtx(95, None, 34, text="mark").nvtx(0, None, 75, text="d")
    export.os_call(10, 20).profiler_overhead(30, 40)
    return export


@pytest.mark.parametrize("all_tables", [False, True])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_reads_the_same(tmp_path: Path, generation: str, all_tables: bool) -> None:
    newest = open_trace(full_export(GENERATIONS[-1]).write(tmp_path / "newest.sqlite"))
    path = full_export(generation, all_tables=all_tables).write(tmp_path / "run.sqlite")
    trace = open_trace(path)
    has = set(full_export(generation).tables)
    for table in ("kernels", "memcpys", "memsets", "api_calls", "syncs", "nvtx_ranges",
                  "os_calls", "profiler_overheads", "threads"):  # fmt: skip
        later = LATER_COLUMNS.get(table, [])
        assert trace.table(table).drop(later).equals(newest.table(table).drop(later)), table
        assert trace.table(table).schema == newest.table(table).schema
        assert trace.facts(table).dropped == {}
    if "CUPTI_ACTIVITY_KIND_CUDA_EVENT" in has:
        later = LATER_COLUMNS["cuda_events"]
        events = trace.table("cuda_events").drop(later)
        assert events.equals(newest.table("cuda_events").drop(later))
    assert trace.table("gpus").select("gpu", "device_id", "name").rows() == [(0, 0, "NVIDIA A100")]
    named = trace.table("processes")["name"].to_list()
    assert named == (["python"] if "PROCESSES" in has else [None])


@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_the_rows_say(tmp_path: Path, generation: str) -> None:
    trace = open_trace(full_export(generation).write(tmp_path / "run.sqlite"))
    pid, tid = global_pid(1000), global_tid(1000, 1000)
    kernels = trace.table("kernels")
    assert kernels.select("start_ns", "end_ns", "global_pid", "name", "grid_x").rows() == [
        (200, 300, pid, "void first<int>(int)", 4),
        (300, 350, pid, "second", 1),
    ]
    assert kernels["graph_node_id"].to_list() == [None, 1 << 40]
    copies = trace.table("memcpys").select(
        "kind", "src_kind", "dst_kind", "bytes", "stream_id", "correlation_id", "migration_cause"
    )
    assert copies.rows() == [
        ("DtoH", "device", "pageable", 1 << 33, 7, 77, None),
        ("UM HtoD", "unknown", "unknown", 4096, None, None, "coherence"),
    ]
    calls = trace.table("api_calls")
    assert calls.select("global_tid", "name", "return_value").rows()[-1] == (
        tid,
        "cudaMemcpy_v3020",
        700,
    )
    ranges = trace.table("nvtx_ranges").select("start_ns", "end_ns", "name", "kind", "open")
    assert ranges.rows() == [(90, 650, "step", "push_pop", False), (95, 95, "mark", "mark", False)]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_versions_and_start_are_read_where_they_are_told(tmp_path: Path, generation: str) -> None:
    capture = open_trace(full_export(generation).write(tmp_path / "run.sqlite")).capture
    version = version_of(generation)
    told = version >= (2, 9, 1)
    assert capture.schema_version == (".".join(map(str, version)) if told else None)
    assert (capture.nsys_version is not None) == told
    assert capture.start_utc_ns in (1_700_000_000_000_000_000, None)
    if told:
        assert capture.start_utc_ns is not None
        assert capture.duration_ns == 5_000


def test_a_real_trace_reads_the_same_from_its_dataset(
    each_real_trace: Path, tmp_path: Path
) -> None:
    direct = open_trace(each_real_trace)
    convert(each_real_trace, tmp_path / "out.deepprof")
    dataset = open_trace(tmp_path / "out.deepprof")
    assert dataset.capture == direct.capture
    for table in TABLES:
        assert dataset.table(table).schema == direct.table(table).schema
        assert dataset.table(table).equals(direct.table(table)), table
        assert dataset.facts(table) == direct.facts(table), table
        order = [c for c in ("start_ns", "time_ns") if c in direct.table(table).columns]
        assert not order or direct.table(table)[order[0]].is_sorted()


def test_a_real_trace_holds_the_rows_of_its_file(each_real_trace: Path) -> None:
    import sqlite3

    trace = open_trace(each_real_trace)
    with sqlite3.connect(f"file:{each_real_trace}?mode=ro&immutable=1", uri=True) as connection:
        tables = {r[0] for r in connection.execute("SELECT name FROM sqlite_master")}
        for name, source in (
            ("kernels", "CUPTI_ACTIVITY_KIND_KERNEL"),
            ("memcpys", "CUPTI_ACTIVITY_KIND_MEMCPY"),
            ("api_calls", "CUPTI_ACTIVITY_KIND_RUNTIME"),
        ):
            frame = trace.table(name)
            if source not in tables:
                assert frame.height == 0
                assert not trace.has(name)
                continue
            rows = connection.execute(
                f"SELECT start, end FROM {source} WHERE NOT (start = 0 AND end = 0)"
                " AND end >= start ORDER BY start, rowid"
            ).fetchall()
            assert frame.select("start_ns", "end_ns").rows() == rows
            assert trace.facts(name).source_rows == len(rows) + sum(
                trace.facts(name).dropped.values()
            )


def test_frames_have_types_whatever_is_in_them(tmp_path: Path) -> None:
    empty = open_trace(Export(all_tables=True).write(tmp_path / "empty.sqlite"))
    full = open_trace(full_export("3.27").write(tmp_path / "full.sqlite"))
    for table in TABLES:
        assert empty.table(table).schema == full.table(table).schema
        assert pl.Null not in full.table(table).dtypes
