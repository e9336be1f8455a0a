"""Inputs that cannot be used: one line, the right exit status, nothing left behind."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fixtures.builder import Export
from tests.cli.contract import TABLE_COMMANDS
from tests.cli.running import Ran, run

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("missing", "nothing", "text", "cut", "no header", "folder", "no kernels' ids", "nsys-rep")


def bad_input(kind: str, train: Path, folder: Path) -> Path:
    good = train.read_bytes()
    path = folder / "bad.sqlite"
    match kind:
        case "missing":
            return folder / "nowhere" / "typo.sqlite"
        case "nothing":
            path.write_bytes(b"")
        case "text":
            path.write_bytes(b"hello" * 300)
        case "cut":
            path.write_bytes(good[: len(good) * 6 // 10])
        case "no header":
            path.write_bytes(bytes(100) + good[100:])
        case "folder":
            path.mkdir()
        case "no kernels' ids":
            Export().kernel(0, 10).write(path)
            with closing(sqlite3.connect(path)) as database:
                database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN correlationId")
                database.commit()
        case "nsys-rep":
            path = folder / "bad.nsys-rep"
            path.write_bytes(bytes(range(256)) * 4)
    return path


def refused(ran: Ran, subject: Path | str, code: int = 3) -> None:
    assert ran.code == code
    assert ran.out == b""
    assert ran.err.startswith(f"error: {subject}")
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_a_bad_input_is_one_line(command: str, kind: str, train: Path, tmp_path: Path) -> None:
    path = bad_input(kind, train, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    refused(run(command, path, "-f", "json", "-o", tmp_path / "out.json"), path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_is_made_from_a_bad_input(kind: str, train: Path, tmp_path: Path) -> None:
    path = bad_input(kind, train, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    refused(run("convert", path, "-o", tmp_path / "out.deepprof"), path)
    refused(run("report", path, "-o", tmp_path / "out.html"), path)
    refused(run("export", path, "--perfetto", tmp_path / "out.pftrace"), path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_column_is_named(train: Path, tmp_path: Path) -> None:
    path = bad_input("no kernels' ids", train, tmp_path)
    err = run("kernels", path).err
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in err
    assert "correlationId" in err


def test_the_debug_switch_keeps_the_traceback(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="typo"):
        run("--debug", "info", tmp_path / "typo.sqlite")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--from", "1000"), "the trace runs from 0 to"),
        (("--from", "20", "--to", "10"), "selects nothing"),
        (("--nvtx", "nowhere"), "no range of that name"),
        (("--gpu", "7"), "there: 0"),
        (("--comm", "("), "not a regular expression"),
    ],
)
@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_a_selection_of_nothing_is_wrong_usage(
    command: str, options: tuple[str, ...], words: str, train: Path
) -> None:
    ran = run(command, train, *options)
    refused(ran, options[0], code=2)
    assert words in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("gaps",),
        ("nothing-of-the-kind",),
        ("gaps", "x.sqlite", "--format", "yaml"),
        ("gaps", "x.sqlite", "--limit", "-1"),
        ("gaps", "x.sqlite", "--nonsense"),
        ("export", "x.sqlite"),
        ("diff", "x.sqlite"),
        ("check",),
        ("batch",),
    ],
)
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...]) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert ran.out == b""
    assert "Traceback" not in ran.err


def test_a_file_name_cannot_forge_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nerror: b\x1b[31m.sqlite"
    ran = run("info", path)
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err


def test_the_dataset_of_a_newer_tool_is_refused(dataset: Path, tmp_path: Path) -> None:
    import json
    import shutil

    copy = tmp_path / "newer.deepprof"
    shutil.copytree(dataset, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    versions = [key for key in manifest if "version" in key and "dataset" in key]
    assert versions
    for key in versions:
        manifest[key] = "99"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    refused(run("info", copy), copy)
