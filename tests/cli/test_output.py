"""Where output goes: whole or absent, never over the input, and nowhere that nobody asked for."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.contract import TABLE_COMMANDS
from tests.cli.running import run

if TYPE_CHECKING:
    from pathlib import Path


def state(path: Path) -> tuple[str, int, list[str]]:
    """A file's content and time, and what is beside it."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return digest, path.stat().st_mtime_ns, sorted(os.listdir(path.parent))


@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_the_input_and_its_folder_are_untouched(command: str, train: Path) -> None:
    before = state(train)
    assert run(command, train).code == 0
    assert state(train) == before


def test_a_timeline_leaves_the_input_alone(train: Path, tmp_path: Path) -> None:
    before = state(train)
    assert run("export", train, "--perfetto", tmp_path / "t.pftrace").code == 0
    assert state(train) == before


@pytest.mark.parametrize("form", ["table", "json", "csv", "parquet"])
def test_output_onto_the_input_is_refused(form: str, train: Path) -> None:
    before = state(train)
    ran = run("gaps", train, "-f", form, "-o", train)
    assert ran.code == 3
    assert "is the input itself" in ran.err
    ran = run("export", train, "--perfetto", train)
    assert ran.code == 3
    assert state(train) == before


@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_a_folder_that_is_not_there_is_one_line(command: str, train: Path, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "rows.csv"
    ran = run(command, train, "-f", "csv", "-o", target)
    assert ran.code == 3
    assert ran.err.startswith(f"error: {target}: cannot be written")
    assert ran.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_replaced(train: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.json"
    target.write_text("old")
    target.chmod(0o600)
    assert run("gaps", train, "-f", "json", "-o", target).code == 0
    assert target.read_bytes() == run("gaps", train, "-f", "json").out


def test_a_full_disk_leaves_the_old_file(train: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.json"
    target.write_text("old")
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "from nsys_deepprof.cli import main;"
        f"sys.argv = ['x', 'gaps', {str(train)!r}, '-f', 'json', '-o', {str(target)!r}]; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], check=False, capture_output=True, text=True
    )
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: {target}: cannot be written")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["rows.json"]


def test_a_reader_that_goes_away_is_no_error(train: Path) -> None:
    code = "from nsys_deepprof.cli import main; main()"
    command = [sys.executable, "-c", code, "gaps", str(train), "--min-us", "0", "-f", "csv"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"gpu,pid,")
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_parquet_to_a_pipe_is_a_file(train: Path, tmp_path: Path) -> None:
    out = run("gaps", train, "-f", "parquet").out
    assert out[:4] == out[-4:] == b"PAR1"


@pytest.mark.parametrize("name", ["t.pftrace", "t.json"])
def test_a_timeline_is_compressed_by_its_name(name: str, train: Path, tmp_path: Path) -> None:
    for target in (tmp_path / name, tmp_path / f"{name}.gz"):
        ran = run("export", train, "--perfetto", target)
        assert (ran.code, ran.err) == (0, "")
        assert ran.text.startswith(f"{target}: ")
    assert gzip.decompress((tmp_path / f"{name}.gz").read_bytes()) == (
        (tmp_path / name).read_bytes()
    )


def test_annotations_alone_are_smaller(train: Path, tmp_path: Path) -> None:
    whole, alone = tmp_path / "whole.pftrace", tmp_path / "alone.pftrace"
    assert run("export", train, "--perfetto", whole).code == 0
    assert run("export", train, "--perfetto", alone, "--only-annotations").code == 0
    assert alone.stat().st_size < whole.stat().st_size


def test_a_report_is_beside_its_run_unless_said_otherwise(train: Path, tmp_path: Path) -> None:
    import shutil

    mine = tmp_path / "run.sqlite"
    shutil.copyfile(train, mine)
    ran = run("report", mine)
    assert (ran.code, ran.text) == (0, f"{tmp_path / 'run.html'}\n")
    assert (tmp_path / "run.html").read_text().rstrip().endswith("</html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.html", "run.sqlite"]
