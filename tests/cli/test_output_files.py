"""Where results go: the file that was named, whole, and nothing else."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import run

MAIN = "from nsys_deepprof.cli import main; main()"

DEMO = Path(__file__).parents[2] / "fixtures" / "train.sqlite"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    return Path(shutil.copy(DEMO, tmp_path / "run.sqlite"))


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path, demo: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("old")
    link.symlink_to(real)
    assert run("report", demo, "-o", link).code == 0
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8").endswith("</html>")


def test_a_link_to_a_device_is_written_through(tmp_path: Path, demo: Path) -> None:
    link = tmp_path / "null.html"
    link.symlink_to("/dev/null")
    assert run("report", demo, "-o", link).code == 0
    assert link.is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_replaced_file_keeps_its_mode(tmp_path: Path, demo: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text("old")
    own.chmod(0o600)
    assert run("gaps", demo, "--format", "json", "-o", own).code == 0
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert own.read_text().startswith("{")


@pytest.mark.parametrize("command", ["report", "gaps"])
def test_nothing_is_written_inside_an_input(tmp_path: Path, demo: Path, command: str) -> None:
    dataset = tmp_path / "ds"
    assert run("convert", demo, "-o", dataset).code == 0
    before = {file: file.stat().st_mtime_ns for file in dataset.iterdir()}
    got = run(command, dataset, "-o", dataset / "kernels.parquet")
    assert got.code == 3
    assert "inside it" in got.err
    assert len(got.err.splitlines()) == 1
    assert {file: file.stat().st_mtime_ns for file in dataset.iterdir()} == before


def test_the_longest_name_that_the_file_system_takes(tmp_path: Path, demo: Path) -> None:
    target = tmp_path / f"{'n' * 250}.html"
    assert run("report", demo, "-o", target).code == 0
    assert target.exists()


@pytest.mark.parametrize(
    ("name", "first"),
    [("q.JSON", b"{"), ("q.JSON.GZ", b"{"), ("q.json.pftrace", b"\n"), ("q.pftrace.GZ", b"\n")],
)
def test_the_last_suffixes_tell_the_format(
    tmp_path: Path, demo: Path, name: str, first: bytes
) -> None:
    target = tmp_path / name
    assert run("export", demo, "--perfetto", target, "--only-annotations").code == 0
    content = target.read_bytes()
    if name.lower().endswith(".gz"):
        content = gzip.decompress(content)
    assert content[:1] == first


def test_a_name_that_is_not_text(tmp_path: Path, demo: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.sqlite"))
    try:
        shutil.copy(demo, odd)
    except OSError:
        pytest.skip("the file system takes only names that are text")
    page = tmp_path / "x.html"
    assert run("report", odd, "-o", page).code == 0
    assert page.exists()


def test_a_dataset_that_is_the_working_directory(
    tmp_path: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("convert", demo, "-o", tmp_path / "ds").code == 0
    monkeypatch.chdir(tmp_path / "ds")
    got = run("report", ".")
    assert got.code == 0, got.err
    assert (tmp_path / "ds.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", [("findings",), ("gaps", "--format", "json")])
def test_a_full_standard_output_is_one_line(demo: Path, command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        got = subprocess.run(
            [sys.executable, "-c", MAIN, command[0], demo, *command[1:]],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert got.returncode == 3
    assert got.stderr.startswith("error: standard output: cannot be written")
    assert len(got.stderr.splitlines()) == 1
