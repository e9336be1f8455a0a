"""Datasets: the same rows as the export, whole or not at all, never stale."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.builder import KERNEL, PID, Export
from nsys_deepprof import dataset, sorted_parquet
from nsys_deepprof.dataset import convert, default_target
from nsys_deepprof.errors import InputError, OutputError
from nsys_deepprof.gpus import HOST_FIRST_DEVICE
from nsys_deepprof.opening import open_trace
from nsys_deepprof.sources import sqlite as sqlite_source
from nsys_deepprof.trace import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

TIME = st.integers(-5, 60)
LENGTH = st.integers(-2, 40)
CHOICE = st.integers(0, 3)
ROW = st.tuples(st.sampled_from("kkkccmganpo"), TIME, LENGTH, CHOICE, CHOICE)


def export_of(rows: list[tuple[str, int, int, int, int]]) -> Export:
    export = Export(all_tables=True)
    for kind, start, length, a, b in rows:
        end, pid = start + length, PID + a % 2
        match kind:
            case "k":
                export.kernel(start, end, b, 7 + a, pid=pid, name=f"k{b}" if a else 10_000 + b)
            case "c":
                export.copy(start, end, b, pid=pid, kind=(1, 2, 11, 77)[a])
            case "m":
                export.memset(start, end, b, pid=pid)
            case "g":
                export.graph(start, end, HOST_FIRST_DEVICE if a > 1 else b, pid=pid)
            case "a":
                export.api(start, end, pid, 7 + b)
            case "n":
                event = (59, 60, 34, 75)[a]
                export.nvtx(start, None if b == 1 else end, event, pid, text=f"n{b}" if b else None)
            case "p":
                export.profiler_overhead(start, end).cupti_overhead(start + 1, end)
            case _:
                export.os_call(start, end)
    return export


@given(st.lists(ROW, max_size=60))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_dataset_says_what_the_export_says(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, int, int, int]]
) -> None:
    path = export_of(rows).write(tmp_path_factory.mktemp("run") / "run.sqlite")
    direct = open_trace(path)
    want = {table: (direct.table(table), direct.facts(table)) for table in TABLES}
    with pytest.MonkeyPatch.context() as patch:
        # Small parts, so that there are several runs to merge.
        patch.setattr(sqlite_source, "PART_ROWS", 5)
        patch.setattr(sorted_parquet, "_SLICE_ROWS", 4)
        patch.setattr(sorted_parquet, "_SAMPLE_EVERY", 2)
        in_parts = open_trace(path)
        for table in TABLES:
            assert in_parts.table(table).equals(want[table][0]), table
        done = convert(path)
    trace = open_trace(done.path)
    assert trace.capture == direct.capture
    for table, (frame, facts) in want.items():
        assert trace.table(table).schema == frame.schema
        assert trace.table(table).equals(frame), table
        assert trace.facts(table) == facts, table
        assert done.rows[table] == frame.height
    assert {p.suffix for p in done.path.iterdir()} == {".parquet", ".json"}


@given(st.lists(ROW, max_size=60))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_rows_are_those_of_the_export(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, int, int, int]]
) -> None:
    path = export_of(rows).write(tmp_path_factory.mktemp("run") / "run.sqlite")
    trace = open_trace(path)
    with closing(sqlite3.connect(path)) as connection:
        texts = dict(connection.execute("SELECT id, value FROM StringIds"))
        found = connection.execute(
            f"SELECT start, end, globalPid, deviceId, streamId, demangledName FROM {KERNEL}"
        ).fetchall()
    kept = [row for row in found if row[1] >= row[0] and row[:2] != (0, 0)]
    want = [(*row[:5], texts.get(row[5], f"<unknown:{row[5]}>")) for row in kept]
    columns = ["start_ns", "end_ns", "global_pid", "device_id", "stream_id", "name"]
    assert trace.table("kernels").select(columns).rows() == sorted(want, key=lambda row: row[0])
    facts = trace.facts("kernels")
    assert facts.source_rows == len(found)
    assert sum(facts.dropped.values()) == len(found) - len(kept)


def small(path: Path, kernels: int = 3) -> Path:
    export = Export()
    for start in range(kernels):
        export.kernel(10 * start + 1, 10 * start + 5)
    return export.write(path)


def test_the_manifest_and_the_files(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite")
    done = convert(path)
    assert done.path == tmp_path / "run.deepprof"
    manifest = json.loads((done.path / "manifest.json").read_text())
    assert manifest["source"]["name"] == "run.sqlite"
    assert manifest["source"]["bytes"] == path.stat().st_size
    assert manifest["capture"]["schema_version"] == "3.27.0"
    assert {p.stem for p in done.path.glob("*.parquet")} == set(TABLES)
    for table in TABLES:
        assert pl.read_parquet(done.path / f"{table}.parquet").height == manifest["rows"][table]


@pytest.mark.parametrize(
    ("run", "target"),
    [
        ("a/run.sqlite", "a/run.deepprof"),
        ("run.sqlite.zst", "run.deepprof"),
        ("run.nsys-rep", "run.deepprof"),
        ("run", "run.deepprof"),
        ("s3://bucket/a/run.sqlite", "run.deepprof"),
    ],
)
def test_default_targets(run: str, target: str) -> None:
    assert default_target(run) == Path(target)


def test_what_is_at_the_target(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite")
    with pytest.raises(OutputError, match="input itself"):
        convert(path, path)
    for name in ("file", "folder"):
        taken = tmp_path / name
        taken.write_text("mine") if name == "file" else taken.mkdir()
        for force in (False, True):
            with pytest.raises(OutputError, match="not a converted dataset"):
                convert(path, taken, force=force)
        assert taken.exists()
    other = small(tmp_path / "other.sqlite", kernels=5)
    out = convert(path).path
    with pytest.raises(OutputError, match=r"other content \(run.sqlite\)"):
        convert(other, out)
    assert open_trace(out).table("kernels").height == 3
    assert not convert(other, out, force=True).up_to_date
    assert open_trace(out).table("kernels").height == 5


def test_a_dataset_of_another_version_is_refused_and_rebuilt(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite")
    out = convert(path).path
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["dataset_version"] = dataset.DATASET_VERSION + 1
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="dataset version"):
        open_trace(out)
    assert not convert(path).up_to_date
    assert open_trace(out).table("kernels").height == 3


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": "other"}', '{"format": "nsys-deepprof dataset"}']
)
def test_a_broken_manifest(tmp_path: Path, text: str) -> None:
    out = convert(small(tmp_path / "run.sqlite")).path
    (out / "manifest.json").write_text(text)
    with pytest.raises(InputError):
        open_trace(out)


def test_broken_tables(tmp_path: Path) -> None:
    out = convert(small(tmp_path / "run.sqlite")).path
    (out / "kernels.parquet").write_bytes(b"PAR1")
    (out / "memcpys.parquet").unlink()
    pl.DataFrame({"a": [1]}).write_parquet(out / "memsets.parquet")
    trace = open_trace(out)
    for table, complaint in (
        ("kernels", "missing or damaged"),
        ("memcpys", "missing or damaged"),
        ("memsets", "not the file of its manifest"),
    ):
        with pytest.raises(InputError, match=complaint):
            trace.table(table)
    assert trace.table("api_calls").height == 0


def test_a_source_that_changes_during_the_conversion(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite")

    def touch(table: str, done: int, of: int) -> None:
        if table == "syncs":
            os.utime(path, ns=(1, 1))

    with pytest.raises(InputError, match="changed while it was read"):
        convert(path, progress=touch)
    assert os.listdir(tmp_path) == ["run.sqlite"]


def test_progress_counts_rows(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    convert(small(tmp_path / "run.sqlite", kernels=40), progress=lambda *c: calls.append(c))
    assert calls[0] == ("kernels", 0, 40)
    assert calls[-1][1:] == (40, 40)
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)


def converting(path: Path, out: Path) -> subprocess.Popen[bytes]:
    code = "import sys, nsys_deepprof as nd; nd.convert(sys.argv[1], sys.argv[2])"
    return subprocess.Popen([sys.executable, "-c", code, path, out], stderr=subprocess.PIPE)


def test_killed_at_any_moment(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite", kernels=20_000)
    out = tmp_path / "out.deepprof"
    begin = time.monotonic()
    with converting(path, out) as process:
        pass
    assert process.returncode == 0
    whole = time.monotonic() - begin
    rng = random.Random(5)
    killed = 0
    for round_ in range(5):
        if round_ % 2:
            subprocess.run(["rm", "-r", out], check=True) if out.exists() else None
        else:
            manifest = out / "manifest.json"
            if out.exists():
                # An old version: it is to be replaced.
                text = manifest.read_text().replace('"dataset_version": ', '"dataset_version": 9')
                manifest.write_text(text)
        with converting(path, out) as process:
            time.sleep(rng.uniform(0.3, 1.0) * whole)
            process.send_signal(signal.SIGKILL)
        killed += process.returncode == -signal.SIGKILL
        if out.exists():
            version = json.loads((out / "manifest.json").read_text())["dataset_version"]
            if version == dataset.DATASET_VERSION:
                assert open_trace(out).table("kernels").height == 20_000
    assert killed
    convert(path, out)
    assert sorted(os.listdir(tmp_path)) == ["out.deepprof", "run.sqlite"]


def test_two_conversions_to_one_target(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite", kernels=2_000)
    out = tmp_path / "out.deepprof"
    for _ in range(3):
        racers = [converting(path, out) for _ in range(3)]
        for racer in racers:
            _, errors = racer.communicate()
            assert racer.returncode == 0, errors
        assert open_trace(out).table("kernels").height == 2_000
        assert sorted(os.listdir(tmp_path)) == ["out.deepprof", "run.sqlite"]
        subprocess.run(["rm", "-r", out], check=True)


def test_leftovers_of_the_living_stay(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite")
    out = tmp_path / "out.deepprof"
    seen: list[list[str]] = []

    def meanwhile(table: str, done: int, of: int) -> None:
        if table == "syncs":
            assert not convert(path, out).up_to_date
            seen.append(sorted(p.name for p in tmp_path.glob(".out.deepprof.*")))

    convert(path, out, force=True, progress=meanwhile)
    assert len(seen[0]) == 1
    assert sorted(os.listdir(tmp_path)) == ["out.deepprof", "run.sqlite"]


@contextmanager
def small_disk(place: Path, kib: int) -> Iterator[None]:
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("kib", [4, 8, 16, 24, 32, 48, 64])
def test_a_full_disk(tmp_path: Path, kib: int) -> None:
    path = small(tmp_path / "run.sqlite", kernels=5_000)
    with small_disk(tmp_path / "disk", kib):
        out = tmp_path / "disk" / "out.deepprof"
        with pytest.raises(OutputError, match=r"cannot be written: no space") as caught:
            convert(path, out)
        assert "\n" not in caught.value.line()
        assert os.listdir(tmp_path / "disk") == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        convert(path, tmp_path / "file" / "out.deepprof")


def test_conversions_have_the_same_bytes(tmp_path: Path) -> None:
    path = small(tmp_path / "run.sqlite", kernels=500)

    def files(out: Path) -> dict[str, Any]:
        return {p.name: p.read_bytes() for p in out.iterdir()}

    first = convert(path, tmp_path / "a.deepprof").path
    assert files(first) == files(convert(path, tmp_path / "b.deepprof").path)
