"""The export builder: every row comes back as given, in every schema generation."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.builder import Export
from fixtures.ids import global_pid, global_tid
from fixtures.schema import GENERATIONS, enum_rows, table_columns

if TYPE_CHECKING:
    from pathlib import Path


def full_export(generation: str) -> Export:
    """One row of every kind that the builder has a short form for."""
    return (
        Export(generation)
        .kernel(100, 200, 0, 7, 5, 10, "void f<int>(int)", short_name="f", grid=(4, 2, 1))
        .copy(200, 260, 0, 7, 6, 10, 64, "DtoH", "device", "pageable")
        .migration(260, 270, 0, 10, 4096, "UM DtoH", cause=4)
        .memset(270, 280, 0, 7, 7, 10, 32)
        .graph(300, 400, 0, 7, 8, 10, 109)
        .api(10, 20, 10, 11, 5, "cudaLaunchKernel_v7000")
        .api(21, 22, 10, 11, 9, "cuLaunchKernel")
        .sync(22, 30, 7, 12, 10, "stream")
        .cuda_event(7, 13, 10, 3, 17)
        .nvtx(0, 500, 59, 10, 11, "step")
        .nvtx(1, None, 34, 10, 11, None, "mark")
        .os_call(30, 40, 10, 11, "poll")
        .profiler_overhead(40, 45, 10, 11)
        .cupti_overhead(45, 50, 10, 11)
        .gpu(0)
        .device_map(10, 0, 0)
        .stream(7, 10)
        .context(10)
        .process(10, "python")
        .thread(10, 11, "main")
        .session(1_700_000_000_000_000_000)
        .diagnostic(5, 2, "Dropped some events")
    )


def rows(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    cursor = connection.execute(f'SELECT * FROM "{table}"')
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def table_names(connection: sqlite3.Connection) -> set[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return {name for (name,) in connection.execute(query)}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_round_trip(generation: str, tmp_path: Path) -> None:
    export = full_export(generation)
    with closing(sqlite3.connect(export.write(tmp_path / "x.sqlite"))) as connection:
        strings = {row["id"]: row["value"] for row in rows(connection, "StringIds")}
        (kernel,) = rows(connection, "CUPTI_ACTIVITY_KIND_KERNEL")
        assert (kernel["start"], kernel["end"], kernel["streamId"]) == (100, 200, 7)
        assert kernel["globalPid"] == global_pid(10)
        assert strings[kernel["demangledName"]] == "void f<int>(int)"
        assert strings[kernel["shortName"]] == "f"
        assert (kernel["gridX"], kernel["gridY"], kernel["blockX"]) == (4, 2, 128)
        assert kernel["graphNodeId"] is None

        copy, migration = rows(connection, "CUPTI_ACTIVITY_KIND_MEMCPY")
        assert (copy["copyKind"], copy["srcKind"], copy["dstKind"], copy["bytes"]) == (2, 2, 0, 64)
        assert (migration["copyKind"], migration["migrationCause"]) == (12, 4)
        assert (migration["correlationId"], migration["streamId"]) == (0, 0)

        runtime, driver = rows(connection, "CUPTI_ACTIVITY_KIND_RUNTIME")
        assert strings[runtime["nameId"]] == "cudaLaunchKernel_v7000"
        assert (runtime["eventClass"], driver["eventClass"]) == (0, 1)
        assert runtime["globalTid"] == global_tid(10, 11)

        step, mark = rows(connection, "NVTX_EVENTS")
        assert (step["text"], step["textId"]) == ("step", None)
        assert (mark["text"], strings[mark["textId"]], mark["end"]) == (None, "mark", None)

        columns = table_columns(generation)
        for table in table_names(connection) - set(enum_rows(generation)):
            assert [c.name for c in columns[table]] == list(rows(connection, table)[0])
        assert table_names(connection) == (
            set(columns) - {"CUDA_GRAPH_EVENTS", "META_DATA_CAPTURE", "CUDA_GRAPH_NODE_EVENTS"}
        ) | set(enum_rows(generation))


# Spot checks of shapes that differ, against exports seen in the wild.
@pytest.mark.parametrize(
    ("generation", "table", "has", "lacks"),
    [
        ("2020", "TARGET_INFO_GPU", {"deviceId"}, {"id", "cuDevice"}),
        ("2021", "TARGET_INFO_GPU", {"id", "cuDevice"}, {"deviceId"}),
        ("2020", "PROFILER_OVERHEAD", {"correlationId", "returnValue"}, {"overheadType"}),
        ("2.9", "CUPTI_ACTIVITY_KIND_KERNEL", {"mangledName"}, {"greenContextId"}),
        ("3.11", "CUPTI_ACTIVITY_KIND_KERNEL", {"greenContextId"}, {"graphId"}),
        ("3.27", "CUPTI_ACTIVITY_KIND_KERNEL", {"tensorSizeMinusOneElements"}, {"kernel_name"}),
        ("3.16", "CUPTI_ACTIVITY_KIND_MEMCPY", {"virtualAddress"}, {"copyCount"}),
        ("3.20", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"eventSyncId"}, set()),
        ("3.20", "PROFILER_OVERHEAD", {"returnValue"}, {"overheadType"}),
        ("3.25", "OSRT_API", {"argumentsId"}, {"correlationId"}),
    ],
)
def test_columns_per_version(generation: str, table: str, has: set[str], lacks: set[str]) -> None:
    names = {column.name for column in table_columns(generation)[table]}
    assert has <= names
    assert not lacks & names


def test_tables_per_version() -> None:
    assert "TARGET_INFO_CUDA_GPU" in table_columns("2020")
    assert "TARGET_INFO_CUDA_GPU" not in table_columns("2021")
    assert "EXPORT_META_DATA" in table_columns("3.0")
    assert "EXPORT_META_DATA" not in table_columns("3.4")
    assert "TARGET_INFO_CUDA_DEVICE" not in table_columns("3.16")
    assert "CUPTI_ACTIVITY_KIND_OVERHEAD" not in table_columns("3.20")
    assert not enum_rows("2.9")
    assert "ENUM_CUDA_KRENEL_LAUNCH_TYPE" in enum_rows("3.0")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_sync_type_means_what_it_meant(generation: str) -> None:
    export = Export(generation).sync(0, 1, kind="device").sync(1, 2, kind="stream")
    codes = [
        row["syncType"] for row in rows(export.connect(), "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    ]
    expected = {"3.16": [0, 2], "3.20": [4, 2], "3.25": [4, 3], "3.27": [4, 3]}
    assert codes == expected.get(generation, [1, 3])


def test_shape_options() -> None:
    export = full_export("3.27").without("NVTX_EVENTS")
    export.without("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId", "graphNodeId")
    export.rename("CUPTI_ACTIVITY_KIND_MEMSET", "OTHER_NAME")
    export.rename("CUPTI_ACTIVITY_KIND_MEMCPY", "byteCount", column="bytes")
    export.extra_column("CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_name", "TEXT")
    export.api(60, 61, cuda_name="cudaMalloc")
    export.extra_table("statistics", name="TEXT", value="REAL").raw("statistics", name="a", value=1)
    connection = export.connect()
    assert "NVTX_EVENTS" not in table_names(connection)
    assert {"OTHER_NAME", "statistics"} <= table_names(connection)
    (kernel,) = rows(connection, "CUPTI_ACTIVITY_KIND_KERNEL")
    assert not {"correlationId", "graphNodeId"} & set(kernel)
    assert rows(connection, "CUPTI_ACTIVITY_KIND_MEMCPY")[0]["byteCount"] == 64
    assert rows(connection, "CUPTI_ACTIVITY_KIND_RUNTIME")[-1]["cuda_name"] == "cudaMalloc"


def test_metadata_options() -> None:
    metadata = dict(
        Export(schema_version="99.1.2")
        .connect()
        .execute("SELECT name, value FROM META_DATA_EXPORT")
    )
    assert metadata["EXPORT_SCHEMA_VERSION"] == "99.1.2"
    assert metadata["EXPORT_SCHEMA_VERSION_MAJOR"] == "99"
    assert table_names(Export(metadata=False, enums=False).connect()) == {"StringIds"}
    everything = table_names(Export("3.4", all_tables=True, enums=False).connect())
    assert everything == set(table_columns("3.4"))


def test_raw_ids_and_unknown_columns() -> None:
    export = Export().kernel(0, 1, name=999)
    assert rows(export.connect(), "StringIds") == []
    assert rows(export.connect(), "CUPTI_ACTIVITY_KIND_KERNEL")[0]["demangledName"] == 999
    with pytest.raises(ValueError, match=r"no generation has CUPTI_.*_KERNEL\.colour"):
        export.kernel(0, 1, colour=3)
    with pytest.raises(ValueError, match="no generation has a table NOPE"):
        export.raw("NOPE", x=1)


def test_launch_shares_one_correlation() -> None:
    export = Export().launch((0, 5), (8, 20), "a").launch((5, 9), (20, 30), "b")
    query = """SELECT k.start - r.end FROM CUPTI_ACTIVITY_KIND_KERNEL k
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) ORDER BY k.start"""
    assert [delay for (delay,) in export.connect().execute(query)] == [3, 11]
