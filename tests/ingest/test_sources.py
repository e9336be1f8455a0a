"""Every kind of RUN gives the same answers."""

from __future__ import annotations

import gc
import gzip
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from typing import TYPE_CHECKING

import fsspec
import polars as pl
import pyarrow as pa
import pytest

from fixtures.builder import KERNEL, Export
from fixtures.schema import GENERATIONS
from nsys_deepprof.dataset import convert
from nsys_deepprof.errors import InputError
from nsys_deepprof.opening import open_trace
from nsys_deepprof.queries import known_tables
from nsys_deepprof.sources import open_source, parquetdir
from nsys_deepprof.trace import TABLES, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Unpacked files go here, and must be gone at the end."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    gc.collect()
    assert os.listdir(place) == []


def export(generation: str = "3.27") -> Export:
    made = Export(generation).session(1_700_000_000_000_000_000).process(1000, "py").stream(7)
    made.gpu(0, "NVIDIA A100").device_map(1000, 0, 0).thread(1000, 1000, "main")
    for start in range(1, 40):
        made.launch(
            (100 * start, 100 * start + 5), (100 * start + 9, 100 * start + 60), f"k{start % 3}"
        )
    made.kernel(3, 9, name=99).copy(20, 30, kind="DtoH", dst="pageable").migration(40, 44)
    made.memset(50, 55).graph(60, 70).sync(71, 80).cuda_event().nvtx(0, None, text="open")
    made.nvtx(2, 30, text_id="by id").nvtx(5, None, 34, text="mark").os_call(1, 2)
    return made.profiler_overhead(3, 4).cupti_overhead(5, 6).diagnostic(7, 2, "text")


DECLARED = {"INTEGER": pl.Int64, "TEXT": pl.String, "REAL": pl.Float64}


def parquetdir_of(path: Path, folder: Path) -> Path:
    """What `nsys export --type parquetdir` makes of the same rows."""
    folder.mkdir()
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for table in open_source(path).tables:
            info = connection.execute(f"PRAGMA table_info({table})").fetchall()
            schema = {name: DECLARED[kind] for _, name, kind, *_ in info}
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            pl.DataFrame(rows, schema, orient="row").write_parquet(folder / f"{table}.parquet")
    (folder / "ENUM_CUDA_MEM_KIND.parquet").write_bytes(b"not read")
    return folder


def same(one: Trace, other: Trace) -> None:
    assert one.capture == other.capture
    for table in TABLES:
        assert one.table(table).schema == other.table(table).schema
        assert one.table(table).equals(other.table(table)), table
        assert one.facts(table) == other.facts(table), table


@pytest.mark.parametrize("generation", GENERATIONS)
def test_parquetdir(tmp_path: Path, generation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquetdir, "PART_ROWS", 7)
    path = export(generation).write(tmp_path / "run.sqlite")
    folder = parquetdir_of(path, tmp_path / "run")
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    same(open_trace(folder), open_trace(path))
    done = convert(folder)
    assert done.path == tmp_path / "run.deepprof"
    same(open_trace(done.path), open_trace(path))
    assert convert(folder).up_to_date
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_parquetdir_of_a_real_trace(each_real_trace: Path, tmp_path: Path) -> None:
    folder = parquetdir_of(each_real_trace, tmp_path / "run")
    same(open_trace(folder), open_trace(each_real_trace))


def test_bad_parquetdirs(tmp_path: Path) -> None:
    folder = parquetdir_of(export().write(tmp_path / "run.sqlite"), tmp_path / "run")
    (folder / "CUPTI_ACTIVITY_KIND_MEMCPY.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"MEMCPY.parquet: cannot be read"):
        convert(folder)
    (folder / "CUPTI_ACTIVITY_KIND_MEMCPY.parquet").unlink()
    frame = pl.read_parquet(folder / f"{KERNEL}.parquet").drop("correlationId")
    frame.write_parquet(folder / f"{KERNEL}.parquet")
    with pytest.raises(InputError, match="no column correlationId"):
        open_trace(folder).table("kernels")
    assert not (tmp_path / "run.deepprof").exists()
    trace = open_trace(folder)
    (folder / "StringIds.parquet").unlink()
    with pytest.raises(InputError):
        trace.table("kernels")


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_compressed(tmp_path: Path, kind: str) -> None:
    path = export().write(tmp_path / "run.sqlite")
    packed = tmp_path / f"packed.sqlite.{kind}"
    if kind == "gz":
        packed.write_bytes(gzip.compress(path.read_bytes()))
    else:
        with pa.CompressedOutputStream(str(packed), "zstd") as out:
            out.write(path.read_bytes())
    same(open_trace(packed), open_trace(path))
    done = convert(packed)
    assert done.path == tmp_path / "packed.deepprof"
    same(open_trace(done.path), open_trace(path))
    packed.write_bytes(packed.read_bytes()[:-200])
    with pytest.raises(InputError, match=str(packed)):
        open_trace(packed)
    packed.write_bytes(b"neither")
    with pytest.raises(InputError, match="cannot be unpacked"):
        open_trace(packed)


def test_something_else_compressed(tmp_path: Path) -> None:
    packed = tmp_path / "x.sqlite.gz"
    packed.write_bytes(gzip.compress(b"text" * 100))
    with pytest.raises(InputError, match=rf"{packed.name}: not an SQLite file"):
        open_trace(packed)


def test_a_small_file_that_unpacks_to_the_whole_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "x.sqlite.gz"
    packed.write_bytes(gzip.compress(bytes(5 << 20)))
    real = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: real._replace(free=1 << 20))
    with pytest.raises(InputError, match="does not fit"):
        open_trace(packed)


def test_object_stores(tmp_path: Path) -> None:
    path = export().write(tmp_path / "run.sqlite")
    with fsspec.open("memory://bucket/run.sqlite", "wb") as out:
        out.write(path.read_bytes())
    for url in ("memory://bucket/run.sqlite", f"file://{path}"):
        same(open_trace(url), open_trace(path))
        done = convert(url, tmp_path / "out.deepprof", force=True)
        same(open_trace(done.path), open_trace(path))
    for url, complaint in (
        ("memory://bucket/absent.sqlite", "no such file"),
        ("nowhere://bucket/run.sqlite", "cannot be fetched"),
        ("memory://bucket/run.sqlite.gz", "not read from object stores"),
    ):
        with pytest.raises(InputError, match=complaint) as caught:
            open_trace(url)
        assert caught.value.line().startswith(url)


def test_object_stores_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InputError, match=r"nsys-deepprof\[remote\]"):
        open_trace("s3://bucket/run.sqlite")


STAND_IN = """#!/bin/sh
echo "$0 $@" >> "$(dirname "$0")/calls"
if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version 2026.2.1.210"; exit 0; fi
echo "Processing events..."
for last; do :; done
while [ "$1" != --output ]; do shift; done
if grep -q broken "$last"; then echo "Importer error: $last is damaged" >&2; exit 3; fi
cp "$last" "$2"
"""


def stand_in(folder: Path, name: str = "nsys") -> Path:
    """A program that takes nsys's options; a "report" here is an export under another name."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(STAND_IN)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture
def without_nsys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.mark.parametrize("where", ["path", "option"])
def test_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_nsys: None, where: str
) -> None:
    program = stand_in(tmp_path / "bin", "nsys" if where == "path" else "my nsys")
    if where == "path":
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    nsys = None if where == "path" else str(program)
    path = export().write(tmp_path / "run.sqlite")
    report = tmp_path / "-run 1.nsys-rep"
    shutil.copy(path, report)
    said: list[str] = []
    trace = open_trace(report, nsys=nsys, message=said.append)
    same(trace, open_trace(path))
    assert any("2026.2.1.210" in line and str(program) in line for line in said)
    assert "Processing events..." in said
    done = convert(report, nsys=nsys)
    assert done.path == tmp_path / "-run 1.deepprof"
    same(open_trace(done.path), open_trace(path))
    assert sorted(os.listdir(tmp_path)) == sorted(
        ["bin", "temporary", "run.sqlite", report.name, done.path.name]
    )


def test_a_report_that_nsys_cannot_export(tmp_path: Path, without_nsys: None) -> None:
    report = tmp_path / "x.nsys-rep"
    report.write_text("broken")
    program = stand_in(tmp_path / "bin")
    said: list[str] = []
    with pytest.raises(InputError, match=r"exit status 3.*is damaged") as caught:
        convert(report, nsys=str(program), message=said.append)
    assert "\n" not in caught.value.line()
    assert any("is damaged" in line for line in said)
    report.write_text("what nsys gives back is no export")
    with pytest.raises(InputError, match="an nsys report, not its SQLite export"):
        open_trace(report, nsys=str(program))


@pytest.mark.parametrize("nsys", [None, "/no/such/nsys"])
def test_no_nsys(tmp_path: Path, without_nsys: None, nsys: str | None) -> None:
    report = tmp_path / "x.nsys-rep"
    report.write_bytes(b"\x01" * 1024)
    with pytest.raises(InputError, match="no program") as caught:
        convert(report, nsys=nsys)
    assert "nsys export --type sqlite x.nsys-rep" in caught.value.line()
    with pytest.raises(InputError, match="no such file"):
        open_trace(tmp_path / "absent.nsys-rep")
    not_a_program = tmp_path / "nsys"
    not_a_program.write_bytes(b"\x7fELF nothing")
    not_a_program.chmod(0o755)
    with pytest.raises(InputError, match="cannot be run"):
        open_trace(report, nsys=str(not_a_program))


def test_unpacked_files_go_when_the_process_ends(tmp_path: Path) -> None:
    packed = tmp_path / "run.sqlite.gz"
    packed.write_bytes(gzip.compress(export().write(tmp_path / "run.sqlite").read_bytes()))
    code = (
        "import sys, nsys_deepprof as nd; t = nd.open_trace(sys.argv[1]); t.table('kernels');"
        "import os, tempfile; print(len(os.listdir(tempfile.gettempdir())))"
    )
    place = tmp_path / "other"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, packed],
        env=os.environ | {"TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"
    assert os.listdir(place) == []


def test_every_known_table_can_be_in_a_parquetdir(tmp_path: Path) -> None:
    for table in known_tables():
        folder = tmp_path / table
        folder.mkdir()
        pl.DataFrame({"a": [1]}).write_parquet(folder / f"{table}.parquet")
        assert tuple(open_source(folder).tables) == (table,)
