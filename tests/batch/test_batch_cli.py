"""The batch command: what it says, where, and with which exit status."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import sqlite_utils

from nsys_deepprof.batch.engines import in_processes
from tests.batch import unruly_worker
from tests.batch.archive import empty_export, loop_export, small_archive
from tests.cli.running import run

if TYPE_CHECKING:
    from pathlib import Path


def cli(
    *arguments: str | Path, given: str = "", folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from nsys_deepprof.cli import main; main()", "batch"]
        + [str(argument) for argument in arguments],
        input=given,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        check=False,
    )


def test_failed_runs_give_status_4_and_a_line_each(tmp_path: Path) -> None:
    loop_export().write(tmp_path / "bs8.sqlite")
    empty_export().write(tmp_path / "nogpu.sqlite")
    (tmp_path / "text.sqlite").write_text("no database")
    listed = f"{tmp_path / 'bs8.sqlite'}\n{tmp_path / 'nogpu.sqlite'}\n{tmp_path / 'text.sqlite'}\n"
    options = ["--tag", "team=x", "--tag-path", "bs{bs}.sqlite", "--workers", "2"]
    done = cli("-", "-o", tmp_path / "out", *options, given=listed)
    assert done.returncode == 4
    assert done.stdout.splitlines() == [
        "3 runs: 1 ok, 1 empty, 1 failed",
        str(tmp_path / "out" / "catalog.sqlite"),
        str(tmp_path / "out" / "index.html"),
    ]
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"failed: {tmp_path / 'text.sqlite'}: not an SQLite file")
    catalog = sqlite_utils.Database(tmp_path / "out" / "catalog.sqlite")
    tags = [(row["key"], row["value"]) for row in catalog["tags"].rows]
    assert tags == [("team", "x"), ("bs", "8"), ("team", "x"), ("team", "x")]
    resumed = cli("--resume", "-o", tmp_path / "out", "--workers", "1")
    assert resumed.returncode == 4
    assert resumed.stdout.splitlines()[0] == "3 runs: 1 ok, 1 empty, 1 failed (3 done before)"


def test_bad_runs_of_every_kind_give_reasons_and_status_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unruly = in_processes(2, module=unruly_worker.MODULE)
    monkeypatch.setattr("nsys_deepprof.cli.batch._engine", lambda *_: unruly)
    paths = small_archive(tmp_path / "archive", 20, bad=4)
    done = run("batch", tmp_path / "archive", "-o", tmp_path / "out")
    assert done.code == 4
    assert done.text.splitlines()[0] == "20 runs: 16 ok, 1 empty, 3 failed"
    catalog = sqlite_utils.Database(tmp_path / "out" / "catalog.sqlite")
    told = {row["path"]: (row["status"], row["error"]) for row in catalog["runs"].rows}
    assert set(told) == set(map(str, paths))
    failed = {path.rsplit("/", 1)[1]: why for path, (how, why) in told.items() if how == "failed"}
    assert failed.keys() == {"run2.sqlite", "run7.sqlite", "killer17.sqlite"}
    assert all(failed.values())
    assert "SIGKILL" in failed["killer17.sqlite"]
    for row in catalog["runs"].rows:
        results = tmp_path / "out" / "runs" / row["run_id"] / "results" / "findings.parquet"
        assert results.exists() == (row["status"] != "failed")


def test_good_and_empty_runs_give_status_0(tmp_path: Path) -> None:
    loop_export().write(tmp_path / "good.sqlite")
    empty_export().write(tmp_path / "nogpu.sqlite")
    done = cli(".", "-o", "out", "--workers", "1", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "2 runs: 1 ok, 1 empty, 0 failed"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ((), 2, "no input is named"),
        (("-",), 2, "the list of inputs is empty"),
        (("--resume",), 3, "holds no batch"),
        (("*.sqlite",), 3, "matches no file"),
        (("x.sqlite", "--tag", "novalue"), 2, "not of the form key=value"),
        (("x.sqlite", "--tag-path", "no-field"), 2, "holds no {tag}"),
    ],
)
def test_wrong_usage_is_one_line_and_leaves_nothing(
    tmp_path: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    done = cli(*arguments, "-o", "out", folder=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_no_batch_is_refused(tmp_path: Path) -> None:
    loop_export().write(tmp_path / "good.sqlite")
    done = cli("good.sqlite", "-o", ".", folder=tmp_path)
    assert done.returncode == 3
    assert "not a batch's directory" in done.stderr
