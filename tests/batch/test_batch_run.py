"""Batches in worker processes: what each run leaves, whatever happens to the others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import sqlite_utils

from nsys_deepprof.batch import plan, status
from nsys_deepprof.batch.engines import WORKER, in_processes
from nsys_deepprof.batch.inputs import find_inputs
from nsys_deepprof.batch.isolation import Limits
from nsys_deepprof.batch.plan import BatchInput
from nsys_deepprof.batch.run import BatchResult, resume_batch, run_batch
from nsys_deepprof.errors import InputError, OutputError
from tests.batch import unruly_worker
from tests.batch.archive import digests, empty_export, loop_export, truncate
from tests.batch.engine import here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsys_deepprof.batch.engines import Outcome

ROOT = Path(__file__).resolve().parents[2]


def batch(
    out: Path, paths: Sequence[Path], *, workers: int = 0, unruly: bool = False, **options: Any
) -> BatchResult:
    """A batch in so many worker processes, or in this one."""
    module = unruly_worker.MODULE if unruly else WORKER
    engine = in_processes(workers, module=module) if workers else here
    return run_batch([BatchInput(str(p), {}) for p in paths], out, engine=engine, **options)


def by_name(result: BatchResult) -> dict[str, tuple[str, str | None]]:
    return {
        Path(run.status.identity.path).name: (run.status.status, run.status.reason)
        for run in result.runs
    }


@pytest.fixture
def mixed(tmp_path: Path) -> list[Path]:
    """Good, empty, truncated, missing, and not an export at all."""
    (tmp_path / "text.sqlite").write_text("not a database, but long enough to hold a header" * 9)
    return [
        loop_export().write(tmp_path / "good.sqlite"),
        empty_export().write(tmp_path / "nogpu.sqlite"),
        truncate(loop_export(turns=200).write(tmp_path / "cut.sqlite")),
        tmp_path / "missing.sqlite",
        tmp_path / "text.sqlite",
        loop_export(turns=9).write(tmp_path / "good2.sqlite"),
    ]


def test_bad_runs_have_reasons_and_do_not_disturb_good_ones(
    tmp_path: Path, mixed: list[Path]
) -> None:
    result = batch(tmp_path / "out", mixed, workers=2)
    assert by_name(result) == {
        "good.sqlite": ("ok", None),
        "nogpu.sqlite": ("empty", "no_gpu_activity"),
        "cut.sqlite": ("failed", by_name(result)["cut.sqlite"][1]),
        "missing.sqlite": ("failed", "no such file"),
        "text.sqlite": ("failed", by_name(result)["text.sqlite"][1]),
        "good2.sqlite": ("ok", None),
    }
    assert "truncated" in str(by_name(result)["cut.sqlite"][1])
    assert "not an SQLite file" in str(by_name(result)["text.sqlite"][1])
    assert [Path(r.status.identity.path) for r in result.runs] == mixed
    alone = batch(tmp_path / "alone", mixed[:1])
    run = f"runs/{alone.runs[0].status.identity.run_id}/"
    mine = {k: v for k, v in digests(tmp_path / "alone").items() if k.startswith(run)}
    assert mine
    assert mine.items() <= digests(tmp_path / "out").items()


def test_results_are_the_same_bytes_for_any_number_of_workers_and_any_order(
    tmp_path: Path, mixed: list[Path]
) -> None:
    one, three = tmp_path / "one", tmp_path / "three"
    batch(one, mixed, workers=1)
    batch(three, mixed, workers=3)
    assert digests(one) == digests(three)
    backwards = tmp_path / "backwards"
    batch(backwards, mixed[::-1])
    in_runs = {k: v for k, v in digests(one).items() if k.startswith("runs/")}
    assert in_runs == {k: v for k, v in digests(backwards).items() if k.startswith("runs/")}


def test_what_is_done_is_not_done_again_and_failures_of_the_input_stay(
    tmp_path: Path, mixed: list[Path]
) -> None:
    out = tmp_path / "out"
    batch(out, mixed)
    before = digests(out)
    result = batch(out, mixed)
    # The missing file is looked for again: nothing of it was read.
    assert result.skipped == len(mixed) - 1
    assert digests(out) == before


def test_a_changed_input_is_done_again_even_when_its_time_is_set_back(tmp_path: Path) -> None:
    file, out = tmp_path / "run.sqlite", tmp_path / "out"
    loop_export(turns=2).write(file)
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    batch(out, [file])
    loop_export(turns=4).write(file)
    os.utime(file, ns=times)
    result = batch(out, [file])
    assert (len(result.runs), result.skipped) == (1, 0)
    lake = pl.read_parquet(out / "runs/*/results/gpus.parquet")
    assert lake["kernels"].to_list() == [12]
    file.touch()
    assert batch(out, [file]).skipped == 1


def test_a_run_of_another_version_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = loop_export().write(tmp_path / "run.sqlite"), tmp_path / "out"
    home = out / "runs" / batch(out, [file]).runs[0].status.identity.run_id
    fresh = digests(out)
    older = json.loads((home / "status.json").read_text())
    older["versions"]["results"] = status.RESULTS_VERSION - 1
    (home / "status.json").write_text(json.dumps(older))
    (home / "report.html").write_text("of an older version")
    assert batch(out, [file]).skipped == 0
    assert digests(out) == fresh


def test_equal_names_are_different_runs_and_equal_content_is_marked(tmp_path: Path) -> None:
    files = [tmp_path / folder / "report1.sqlite" for folder in "abc"]
    for file, turns in zip(files, (3, 4, 3), strict=True):
        file.parent.mkdir()
        loop_export(turns).write(file)
    result = batch(tmp_path / "out", files)
    ids = [run.status.identity.run_id for run in result.runs]
    assert len(set(ids)) == 3
    catalog = sqlite_utils.Database(tmp_path / "out" / "catalog.sqlite")
    marks = [row["same_content_as"] for row in catalog["runs"].rows]
    assert marks == [None, None, ids[0]]


def test_a_worker_that_dies_hangs_or_bloats_fails_its_run_only(tmp_path: Path) -> None:
    files = [
        loop_export(turns=3 + i).write(tmp_path / f"{name}.sqlite")
        for i, name in enumerate(("a", "killer", "b", "hang", "hog", "exit", "once", "c"))
    ]
    limits = Limits(timeout_s=8, memory_bytes=700 << 20)
    result = batch(tmp_path / "out", files, workers=2, unruly=True, limits=limits)
    got = by_name(result)
    assert {n for n, (s, _) in got.items() if s == "ok"} == {
        "a.sqlite",
        "b.sqlite",
        "c.sqlite",
        "once.sqlite",
    }
    killed = "the worker process was killed by SIGKILL: about to die"
    assert got["killer.sqlite"] == ("failed", killed)
    assert got["hang.sqlite"] == ("failed", "took longer than 8 s")
    assert got["hog.sqlite"] == ("failed", "needed more than 700 MiB of memory")
    assert got["exit.sqlite"] == ("failed", "the worker process ended with status 7")
    good = batch(tmp_path / "good", [f for f in files if got[f.name][0] == "ok"])
    expected = {k: v for k, v in digests(tmp_path / "good").items() if k.startswith("runs/")}
    assert len(good.runs) == 4
    assert expected.items() <= digests(tmp_path / "out").items()
    # Another try may end otherwise, so those four are tried again, and now they work.
    again = batch(tmp_path / "out", files)
    assert (again.skipped, {s for s, _ in by_name(again).values()}) == (4, {"ok"})


def test_an_interrupted_batch_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    files = [loop_export(turns=3 + i).write(tmp_path / f"r{i}.sqlite") for i in range(5)]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    batch(whole, files)

    def stop(outcome: Outcome, done: int, of: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch(stopped, files, workers=1, progress=stop)
    assert not (stopped / "catalog.sqlite").exists()
    (stopped / "runs" / ".half-made").mkdir()
    result = resume_batch(stopped, engine=in_processes(2))
    assert result.skipped >= 2
    assert digests(stopped) == digests(whole)


def test_nothing_to_resume_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        resume_batch(tmp_path / "nowhere", engine=in_processes(1))
    assert not (tmp_path / "nowhere").exists()


def test_runs_not_named_step_aside_and_come_back(tmp_path: Path) -> None:
    files = [loop_export(turns=3 + i).write(tmp_path / f"r{i}.sqlite") for i in range(3)]
    out = tmp_path / "out"
    batch(out, files)
    before = digests(out)
    batch(out, files[:1])
    assert len(list((out / "runs").iterdir())) == 1
    assert len(list((out / "unlisted").iterdir())) == 2
    assert batch(out, files).skipped == 3
    assert digests(out) == before


def test_kept_runs_stay_listed_without_their_source(tmp_path: Path) -> None:
    file, out = tmp_path / "nightly.sqlite", tmp_path / "out"
    for turns in (3, 4, 5):
        loop_export(turns).write(file)
        result = batch(out, [file], keep=True)
    assert [r.status.status for r in result.runs] == ["ok"] * 3
    file.unlink()
    other = loop_export(6).write(tmp_path / "other.sqlite")
    assert len(batch(out, [other], keep=True).runs) == 4
    lake = pl.scan_parquet(out / "runs/*/results/gpus.parquet").collect()
    assert sorted(lake["kernels"]) == [9, 12, 15, 18]
    assert len(plan.read_plan(out).listed or ()) == 4


def test_a_directory_of_others_is_not_touched(tmp_path: Path) -> None:
    file = loop_export().write(tmp_path / "run.sqlite")
    (tmp_path / "mine" / "runs" / "precious").mkdir(parents=True)
    with pytest.raises(OutputError, match="not a batch"):
        batch(tmp_path / "mine", [file])
    assert [p.name for p in (tmp_path / "mine").rglob("*")] == ["runs", "precious"]


def test_two_batches_do_not_write_one_directory(tmp_path: Path) -> None:
    file, out = loop_export().write(tmp_path / "run.sqlite"), tmp_path / "out"

    def another(outcome: Outcome, done: int, of: int) -> None:
        with pytest.raises(OutputError, match="another batch"):
            batch(out, [file])

    assert len(batch(out, [file], progress=another).runs) == 1


def test_inputs_are_not_changed(tmp_path: Path, mixed: list[Path]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    files = [Path(shutil.copy(f, source)) for f in mixed if f.exists()]
    before = {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in files}
    batch(tmp_path / "out", files, workers=2)
    assert {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in source.iterdir()} == before


def test_names_that_are_not_utf8_and_odd_ones_work(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff 'q\" \n<b>.sqlite")
    loop_export().write(tmp_path / "plain.sqlite").rename(odd)
    result = run_batch([BatchInput(odd, {})], tmp_path / "out", engine=here)
    assert result.runs[0].status.status == "ok"


def test_a_dataset_is_an_input_and_of_the_same_content_as_its_source(tmp_path: Path) -> None:
    from nsys_deepprof import convert

    file = loop_export().write(tmp_path / "run.sqlite")
    dataset = convert(file).path
    result = batch(tmp_path / "out", [file, dataset])
    first, second = (run.status.identity for run in result.runs)
    assert first.fingerprint == second.fingerprint
    lake = pl.scan_parquet(tmp_path / "out/runs/*/results/gaps.parquet").collect()
    halves = [part.drop("run_id") for part in lake.partition_by("run_id")]
    assert halves[0].equals(halves[1])


def test_a_url_is_an_input(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="the extra `remote` is not installed")
    file = loop_export().write(tmp_path / "run.sqlite")
    url = f"file://{file}"
    assert find_inputs([url]) == [url]
    result = run_batch([BatchInput(url, {})], tmp_path / "out", engine=here)
    assert [run.status.status for run in result.runs] == ["ok"]
    assert batch(tmp_path / "local", [file]).runs[0].status.identity.fingerprint == (
        result.runs[0].status.identity.fingerprint
    )


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = loop_export().write(tmp_path / "run.sqlite")
    with pytest.raises(OutputError):
        batch(file, [file])


def test_a_batch_killed_at_any_time_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    files = [loop_export(3 + i).write(tmp_path / f"slow{i}.sqlite") for i in range(5)]
    batch(tmp_path / "whole", files)
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.benchmarks.batch_killable", str(out), *map(str, files)]
    for finished in (1, 3):
        process = subprocess.Popen(command, cwd=ROOT)
        while len(list(out.glob("runs/[!.]*/status.json"))) < finished:
            assert process.poll() is None
            time.sleep(0.02)
        # The batch alone: its workers find out themselves, in the middle of a run.
        process.kill()
        process.wait()
    assert not (out / "catalog.sqlite").exists()
    result = batch(out, files, workers=1, unruly=True)
    assert 3 <= result.skipped < 5
    assert digests(out) == digests(tmp_path / "whole")
