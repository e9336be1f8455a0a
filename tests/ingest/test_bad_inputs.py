"""Inputs that cannot be used: one line that says why, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fixtures.builder import KERNEL, Export
from nsys_deepprof.dataset import convert
from nsys_deepprof.errors import InputError, OutputError
from nsys_deepprof.opening import open_trace
from nsys_deepprof.sources import open_source
from nsys_deepprof.sources import sqlite as sqlite_source
from nsys_deepprof.trace import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def good(path: Path, kernels: int = 200) -> Path:
    export = Export()
    for start in range(1, kernels):
        export.launch((10 * start, 10 * start + 1), (10 * start + 2, 10 * start + 9), f"k{start}")
    return export.write(path)


def refused(path: Path) -> str:
    """The line with which `path` is refused, the same by any way in; it must leave no trace."""
    before = sorted(os.listdir(path.parent)) if path.parent.exists() else None
    lines = []
    for use in (convert, _read_all):
        with pytest.raises(InputError) as caught:
            use(path)
        lines.append(caught.value.line())
    assert (sorted(os.listdir(path.parent)) if path.parent.exists() else None) == before
    assert lines[0] == lines[1]
    assert "\n" not in lines[0]
    assert lines[0].startswith(str(path))
    return lines[0].removeprefix(str(path))


def _read_all(path: Path) -> None:
    trace = open_trace(path)
    for table in TABLES:
        trace.table(table)


def damaged(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        good(path)
        path.write_bytes(change(path.read_bytes()))

    return apply


BAD_FILES = {
    "empty": (damaged(lambda _: b""), "empty file"),
    "text": (damaged(lambda _: b"hello\n" * 300), "not an SQLite file"),
    "cut": (damaged(lambda b: b[: len(b) * 6 // 10]), "truncated"),
    "cut by one byte": (damaged(lambda b: b[:-1]), "truncated"),
    "cut in the header": (damaged(lambda b: b[:50]), "truncated within its header"),
    "zeroed header": (damaged(lambda b: bytes(100) + b[100:]), "zeroed"),
    "page size": (damaged(lambda b: b[:16] + b"\x03\x01" + b[18:]), "page size"),
    "zeroed after the header": (damaged(lambda b: b[:100] + bytes(len(b) - 100)), "cannot be read"),
    "zeroed end": (
        damaged(lambda b: b[: len(b) // 2] + bytes(len(b) - len(b) // 2)),
        "cannot be read",
    ),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_files(tmp_path: Path, kind: str) -> None:
    make, complaint = BAD_FILES[kind]
    path = tmp_path / "x.sqlite"
    make(path)
    assert complaint in refused(path)


def test_places_that_are_no_files(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "absent.sqlite")
    assert "no such file" in refused(tmp_path / "no" / "folder" / "x.sqlite")
    assert "check the path" in refused(tmp_path / ("x" * 300 + ".sqlite"))
    (tmp_path / "folder").mkdir()
    assert "a directory" in refused(tmp_path / "folder")
    os.mkfifo(tmp_path / "pipe.sqlite")
    assert "not a regular file" in refused(tmp_path / "pipe.sqlite")
    (tmp_path / "loop.sqlite").symlink_to(tmp_path / "loop.sqlite")
    assert "loop" in refused(tmp_path / "loop.sqlite").replace("symbolic links", "loop")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = good(tmp_path / "x.sqlite")
    path.chmod(0)
    if os.access(path, os.R_OK):
        # Root may read anything: let the system call say otherwise.
        monkeypatch.setattr(os, "access", lambda *_: False)
    assert "no permission" in refused(path)


def test_databases_that_are_no_exports(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    assert "without any nsys table" in refused(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE t")
    assert "without any nsys table" in refused(path)


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_rows_that_are_still_in_a_log(tmp_path: Path, suffix: str) -> None:
    path = good(tmp_path / "x.sqlite")
    log = tmp_path / f"x.sqlite{suffix}"
    log.write_bytes(b"")
    assert open_trace(path).table("kernels").height == 199
    log.write_bytes(b"frames")
    assert f"x.sqlite{suffix}" in refused(path)


def test_a_log_of_a_real_writer(tmp_path: Path) -> None:
    path = good(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"DELETE FROM {KERNEL}")
        connection.commit()
        assert "write-ahead log" in refused(path)
    assert open_trace(path).table("kernels").height == 0


def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = good(folder / "x.sqlite")
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert open_trace(path).table("kernels").height == 199
        assert convert(path, tmp_path / "out.deepprof").rows["kernels"] == 199
        assert os.listdir(folder) == ["x.sqlite"]
    finally:
        folder.chmod(stat.S_IRWXU)


@pytest.mark.parametrize(
    "name",
    [
        "a b.sqlite",
        "ä€😀.sqlite",
        "100%25.sqlite",
        "q?mode=rw&x=1#f.sqlite",
        "-x.sqlite",
        "'\";.db",
    ],
)
def test_absurd_file_names(tmp_path: Path, name: str) -> None:
    path = good(tmp_path / name)
    assert open_trace(path).table("kernels").height == 199
    done = convert(path)
    assert open_trace(done.path).table("kernels").height == 199
    assert sorted(os.listdir(tmp_path)) == sorted([name, done.path.name])


def test_a_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"a\xff.sqlite")
    good(path)
    with pytest.raises(OutputError, match="path in UTF-8"):
        convert(path)
    done = convert(path, tmp_path / "out.deepprof")
    done.path.rename(path.with_suffix(".deepprof"))
    with pytest.raises(InputError, match="path in UTF-8"):
        open_trace(path.with_suffix(".deepprof"))
    path.with_suffix(".deepprof").rename(done.path)
    assert open_trace(done.path).table("kernels").equals(open_trace(path).table("kernels"))
    manifest = json.loads((done.path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["source"]["name"] == "a\ufffd.sqlite"


def test_absurd_text_inside(tmp_path: Path) -> None:
    names = [
        "",
        "\0",
        "a\0b",
        "\x1b[31m",
        "</script>",
        "\u202e",
        "x" * 1_000_000,
        "\n",
        "<unknown:3>",
    ]
    export = Export()
    for start, name in enumerate(names, 1):
        export.kernel(10 * start, 10 * start + 5, name=name)
    path = export.write(tmp_path / "x.sqlite")
    for trace in (open_trace(path), open_trace(convert(path).path)):
        assert trace.table("kernels")["name"].to_list() == names


def replaced_by(path: Path, table: str, *statements: str) -> Path:
    """A good file in which `table` is moved aside and something else takes its name."""
    good(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO moved")
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        (KERNEL, f"CREATE VIEW {KERNEL} AS SELECT * FROM moved"),
        (KERNEL, f"CREATE VIEW {KERNEL.lower()} AS SELECT * FROM moved"),
        ("StringIds", f"CREATE VIEW StringIds(id) AS {ENDLESS}"),
        ("StringIds", "CREATE VIRTUAL TABLE StringIds USING fts5(id, value)"),
        ("StringIds", "CREATE TABLE StringIds (id, x, value AS (hex(zeroblob(1000000000))))"),
        ("StringIds", "CREATE TABLE StringIds (id, x, value AS (x || 'y') STORED)"),
    ],
)
def test_computed_tables_are_refused(tmp_path: Path, table: str, statement: str) -> None:
    line = refused(replaced_by(tmp_path / "x.sqlite", table, statement))
    assert "computed" in line or "cannot be read" in line
    assert table in line or "cannot be read" in line


def test_a_table_without_row_numbers_and_one_that_hides_them(tmp_path: Path) -> None:
    without = replaced_by(
        tmp_path / "without.sqlite",
        "StringIds",
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT) WITHOUT ROWID",
        "INSERT INTO StringIds SELECT id, value FROM moved",
    )
    hidden = replaced_by(
        tmp_path / "hidden.sqlite",
        "StringIds",
        "CREATE TABLE StringIds (id, value, rowid TEXT, _rowid_ TEXT, oid TEXT)",
        "INSERT INTO StringIds SELECT id, value, 'a', 'b', 'c' FROM moved",
    )
    want = open_trace(good(tmp_path / "good.sqlite")).table("kernels")
    for path in (without, hidden):
        assert open_trace(path).table("kernels").equals(want)


def test_row_numbers_with_holes_out_of_order_and_at_the_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_source, "PART_ROWS", 50)
    want = open_trace(good(tmp_path / "x.sqlite")).table("kernels")
    for change in (
        "rowid = rowid * 1000003",
        "rowid = -rowid",
        "rowid = CASE rowid WHEN 1 THEN -9223372036854775808 ELSE rowid END",
        "rowid = CASE rowid WHEN 3 THEN 9223372036854775807 ELSE rowid END",
    ):
        path = good(tmp_path / "x.sqlite")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"UPDATE {KERNEL} SET {change}")
            connection.commit()
        assert open_trace(path).table("kernels").equals(want), change


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16le'")
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    assert "UTF-16le" in refused(path)


def test_values_of_the_wrong_type(tmp_path: Path) -> None:
    rows = [
        # (start, end, deviceId, gridX), and what becomes of them.
        ((10, 20, 0, 5), (10, 20, 0, 5)),
        ((30.0, "40", 0, "six"), (30, 40, 0, None)),
        ((50, 60, 0, 1 << 31), (50, 60, 0, None)),
        ((70, 80, 0, 2.5), (70, 80, 0, None)),
        ((90, 100, 0, b"7"), (90, 100, 0, None)),
        ((110, 120, 0, (1 << 62) + 1), (110, 120, 0, None)),
        (("x", 120, 0, 1), None),
        ((None, 120, 0, 1), None),
        ((130, 1e300, 0, 1), None),
        ((150, 160, 1 << 40, 1), None),
        ((170, (1 << 63) - 1, 0, 1), None),
        ((-(1 << 63), 180, 0, 1), None),
        ((190, 190 + (1 << 54), 0, 1), None),
    ]
    path = Export().kernel(1, 2, name="k").write(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"ALTER TABLE {KERNEL} RENAME TO moved")
        connection.execute(f"CREATE TABLE {KERNEL} AS SELECT * FROM moved WHERE 0")
        names = [r[1] for r in connection.execute(f"PRAGMA table_info({KERNEL})")]
        # Without declared types the values stay as they are put.
        connection.execute(f"DROP TABLE {KERNEL}")
        connection.execute(f"CREATE TABLE {KERNEL} ({', '.join(names)})")
        new = dict(zip(("start", "end", "deviceId", "gridX"), "????", strict=True))
        rest = ", ".join(new.get(name, f'"{name}"') for name in names)
        order = [n for n in names if n in new]
        assert order == ["start", "end", "deviceId", "gridX"]
        connection.executemany(
            f"INSERT INTO {KERNEL} SELECT {rest} FROM moved", [row for row, _ in rows]
        )
        connection.commit()
    want = [kept for _, kept in rows if kept is not None]
    # Text that looks like a number is none where the column does not say so.
    want[1:2] = []
    for trace in (open_trace(path), open_trace(convert(path).path)):
        kernels = trace.table("kernels")
        assert kernels.select("start_ns", "end_ns", "device_id", "grid_x").rows() == want
        assert trace.facts("kernels").source_rows == len(rows)
        dropped = dict(trace.facts("kernels").dropped)
        assert dropped.pop("grid_x_not_an_integer") == 5
        assert dropped.pop("device_id_not_an_integer") == 1
        assert dropped == {
            "start_ns_not_an_integer": 2,
            "end_ns_not_an_integer": 2,
            "no_time": 5,
            "time_out_of_range": 2,
            "no_device": 1,
        }


def test_integers_that_change_to_text_after_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_source, "_BATCH_ROWS", 16)
    path = good(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE {KERNEL} SET correlationId = 'none' WHERE rowid = 150")
        connection.execute(f"UPDATE {KERNEL} SET graphNodeId = 1.5 WHERE rowid = 3")
        connection.commit()
    trace = open_trace(path)
    lost = trace.table("kernels")["correlation_id"].is_null()
    assert lost.arg_true().to_list() == [149]
    assert trace.facts("kernels").dropped == {
        "correlation_id_not_an_integer": 1,
        "graph_node_id_not_an_integer": 1,
    }


def test_a_source_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = good(tmp_path / "x.sqlite")
    trace = open_trace(path)
    assert trace.table("kernels").height == 199
    status = path.stat()
    other = good(tmp_path / "other.sqlite", kernels=300)
    shutil.copyfile(other, path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(InputError, match="changed while it was read"):
        trace.table("api_calls")
    source = open_source(path)
    path.unlink()
    with pytest.raises(InputError, match="changed while it was read"):
        source.check_unchanged()
