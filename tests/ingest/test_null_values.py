"""Rows that lack what nsys always writes: named as unknown, counted as all others, none lost."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import nsys_deepprof as nd
from nsys_deepprof.analyses.timeline_tracks import timeline_tracks

if TYPE_CHECKING:
    from nsys_deepprof.tracks import Tracks

DEMO = Path(__file__).parents[2] / "fixtures" / "train.sqlite"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"


def edited(folder: Path, table: str, change: str) -> Path:
    """The demo with a table that has lost its constraints, and is changed."""
    file = folder / "edited.sqlite"
    shutil.copy(DEMO, file)
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
        database.execute(f"DROP TABLE {table}")
        database.execute(f"ALTER TABLE loose RENAME TO {table}")
        database.execute(f"UPDATE {table} SET {change}")
        database.commit()
    return file


@pytest.mark.parametrize("value", ["NULL", "'abc'"])
def test_a_kernel_without_a_name_is_an_unknown_one(tmp_path: Path, value: str) -> None:
    trace = nd.open_trace(edited(tmp_path, KERNEL, f"demangledName = {value} WHERE rowid = 5"))
    rows = nd.kernels(trace).frame
    assert rows["calls"].sum() == 3_110
    unknown = rows.filter(pl.col("name").cast(pl.String) == "<unknown:NULL>")
    assert unknown["calls"].to_list() == [1]
    assert nd.iterations(trace).frame.height == 30


def test_a_copy_without_a_kind_is_an_unknown_one(tmp_path: Path) -> None:
    trace = nd.open_trace(edited(tmp_path, MEMCPY, "copyKind = NULL WHERE rowid % 2 = 0"))
    kinds = nd.memcpy(trace).frame["kind"].cast(pl.String).value_counts()
    assert dict(kinds.iter_rows())["unknown"] == 30
    assert kinds["count"].sum() == 60
    assert nd.findings(trace).frame.height


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (KERNEL, "globalPid"),
        (MEMCPY, "globalPid"),
        (MEMSET, "globalPid"),
        (RUNTIME, "globalTid"),
        (RUNTIME, "nameId"),
        ("NVTX_EVENTS", "globalTid"),
    ],
)
def test_every_event_is_on_a_named_track(tmp_path: Path, table: str, column: str) -> None:
    whole = timeline_tracks(nd.open_trace(DEMO))
    cut = timeline_tracks(
        nd.open_trace(edited(tmp_path, table, f"{column} = NULL WHERE rowid % 3 = 0"))
    )
    recorded = ["kernel", "memcpy", "memset", "nvtx", "api"]

    def counts(tracks: Tracks) -> dict[str, int]:
        events = pl.concat([frame.select("category", "track") for frame in tracks.slices])
        assert events["track"].null_count() == 0
        mine = events.filter(pl.col("category").is_in(recorded))
        return dict(mine.group_by("category").len().iter_rows())

    assert counts(cut) == counts(whole)
    assert cut.tracks.null_count().select("track", "process", "name").row(0) == (0, 0, 0)
    assert cut.processes["name"].null_count() == 0
    known = set(cut.processes["process"])
    assert set(cut.tracks["process"]) <= known
