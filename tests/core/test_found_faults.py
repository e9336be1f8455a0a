"""Faults that were found by trying to break the whole, each with the right value."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import nsys_deepprof as nd
from fixtures.builder import Export
from fixtures.ids import global_pid
from nsys_deepprof.reports.verdict import verdict
from tests.cli.running import run

if TYPE_CHECKING:
    from pathlib import Path

NO_DEVICE = 2_147_483_647


def test_work_of_no_length_is_nothing_to_judge(tmp_path: Path) -> None:
    trace = nd.open_trace(Export().kernel(100, 100).copy(100, 100).write(tmp_path / "x.sqlite"))
    found = nd.findings(trace)
    assert found.frame.height == 0
    assert "nothing to judge" in verdict(found)
    assert nd.report(trace)._repr_html_()


def test_a_device_that_is_not_mapped_leaves_the_map_of_others_alone(tmp_path: Path) -> None:
    built = Export().gpu(3, name="shared").device_map(1000, 0, 3).device_map(2000, 0, 3)
    built.launch((0, 5), (10, 20), pid=1000).launch((0, 5), (15, 30), pid=2000)
    built.launch((0, 5), (15, 30), pid=3000)
    frame = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite"))).frame
    assert frame.select("gpu", "name", "window_ns", "processes").rows() == [
        (0, None, 15, 1),
        (3, "shared", 20, 2),
    ]


def test_a_mapped_number_is_not_given_away(tmp_path: Path) -> None:
    built = Export().gpu(0, name="A").gpu(1, name="B").device_map(1000, 0, 1)
    built.kernel(0, 5, device=0).kernel(0, 7, device=1)
    table = nd.open_trace(built.write(tmp_path / "x.sqlite")).table("gpus")
    assert table.select("device_id", "gpu", "name").rows() == [(0, 1, "B"), (1, 0, "B")]


@pytest.mark.parametrize(
    "options",
    [
        ("--min-us", "inf"),
        ("--from", "nan"),
        ("--from", "inf"),
        ("--to", "1e300"),
        ("--from=-1e300",),
    ],
)
def test_numbers_that_mean_nothing_are_wrong_usage(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = Export().kernel(0, 10).write(tmp_path / "x.sqlite")
    done = run("gaps", path, *options)
    assert done.code == 2
    assert done.err.count("\n") == 1


def test_a_graph_whose_nodes_have_rows_is_not_counted_beside_them(tmp_path: Path) -> None:
    built = Export().gpu(0)
    launch = built.correlation()
    built.api(0, 5, correlation=launch, name="cudaGraphLaunch_v10000")
    built.graph(10, 100, correlation=launch, graph=1)
    for node, start in ((5, 20), (6, 50)):
        built.kernel(start, start + 10, correlation=launch, graphNodeId=node, graphId=1)
    result = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite")))
    row = result.frame.row(0, named=True)
    assert (row["compute_ns"], row["idle_ns"], row["graph_launches"]) == (20, 20, 0)
    assert not any("graph" in warning for warning in result.extra["warnings"])


def test_rows_that_were_all_dropped_are_said(tmp_path: Path) -> None:
    built = Export().kernel(0, 0).kernel(0, 0)
    result = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite")))
    assert result.extra["status"] == "no_gpu_activity"
    assert any("2 of 2 rows of kernels were dropped" in w for w in result.extra["warnings"])


def test_a_graph_on_no_known_device_is_dropped_and_said(tmp_path: Path) -> None:
    built = Export().graph(30, 60, device=NO_DEVICE, correlation=1)
    result = nd.info(nd.open_trace(built.write(tmp_path / "x.sqlite")))
    assert result.extra["dropped"] == {"graph_launches": {"no_device": 1}}
    assert any("graph_launches were dropped" in w for w in result.extra["warnings"])


def test_overlapping_ranges_of_one_name_are_one(tmp_path: Path) -> None:
    built = Export().gpu(0).nvtx(0, 100, 60, text="r").nvtx(50, 150, 60, text="r")
    for call, start in ((10, 20), (60, 70), (140, 160)):
        built.launch((call, call + 2), (start, start + 10))
    trace = nd.open_trace(built.write(tmp_path / "x.sqlite"))
    assert nd.info(nd.narrow(trace, nvtx="r")).frame["window_ns"].to_list() == [150]


def test_work_of_unknown_processes_and_streams_has_a_lane(tmp_path: Path) -> None:
    """Two lanes of equal length are told apart by their text, which an unknown id lacked."""
    path = Export().kernel(0, 10).kernel(20, 30, name="b").write(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        database.execute(f"CREATE TABLE nullable AS SELECT * FROM {table}")
        database.execute(f"DROP TABLE {table}")
        database.execute(f"ALTER TABLE nullable RENAME TO {table}")
        database.execute(f"UPDATE {table} SET globalPid = NULL, contextId = NULL WHERE start = 20")
    lanes = nd.patterns(nd.open_trace(path)).extra["lanes"]
    assert set(lanes["lane"]) == {"gpu0/pid?/ctx?/stream7", "gpu1/pid1000/ctx1/stream7"}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {table} SET globalPid = {global_pid(1000)}, streamId = NULL")
    found = nd.launches(nd.open_trace(path)).frame
    assert set(found["lane"]) == {"gpu0/pid1000/ctx1/stream?", "gpu0/pid1000/ctx?/stream?"}


def test_a_stream_is_one_whatever_the_numbers_of_its_device(tmp_path: Path) -> None:
    built = Export().gpu(0).device_map(1000, 0, 0).device_map(1000, 1, 0)
    built.kernel(0, 10, device=0).kernel(5, 20, device=1)
    found = nd.launches(nd.open_trace(built.write(tmp_path / "x.sqlite"))).extra["concurrency"]
    assert found.select("streams", "ns").rows() == [(1, 20)]
