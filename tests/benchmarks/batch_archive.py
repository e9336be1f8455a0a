"""Figures of batches: `python -m tests.benchmarks.batch_archive CASE...` from the repository's top.

    archive   1,000 small runs, 20 bad ones among them: outcomes, cost of a run, memory
    workers   runs of 100,000 kernels with 1 and 2 workers
    killed    stopped with SIGKILL again and again, resumed, compared with an undisturbed batch
    dask      the same archive through a Dask cluster of 2 workers, one killed half-way

`--runs N` makes the archive smaller. Everything is in a temporary directory.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from nsys_deepprof.batch.engines import in_processes
from nsys_deepprof.batch.isolation import Limits
from nsys_deepprof.batch.job import do_run
from nsys_deepprof.batch.plan import BatchInput
from nsys_deepprof.batch.run import BatchResult, run_batch
from nsys_deepprof.cli.batch import SOME_RUNS_FAILED
from tests.batch import unruly_worker
from tests.batch.archive import digests, small_archive, training_export
from tests.batch.cluster import cluster
from tests.cli.running import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsys_deepprof.batch.engines import Engine, Outcome

LIMITS = Limits(timeout_s=120, memory_bytes=2 << 30)
BAD = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    cases = {"archive": archive, "workers": workers, "killed": killed, "dask": dask}
    parser.add_argument("cases", nargs="+", choices=cases)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    for case in options.cases:
        with tempfile.TemporaryDirectory(prefix="batch-benchmark-") as folder:
            cases[case](Path(folder), options.runs)


def archive(folder: Path, runs: int) -> None:
    paths = small_archive(folder / "archive", runs, bad=BAD)
    alone_s = cpu_alone(folder, paths[:40])
    for count in dict.fromkeys((max(runs // 10, 2 * BAD), runs)):
        part = folder / f"out{count}"
        peak: list[int] = []

        def watch(outcome: Outcome, done: int, of: int, peak: list[int] = peak) -> None:
            if done % 20 == 0:
                peak.append(tree_bytes())

        with measured() as spent:
            result = batch(paths[:count], part, unruly(2), progress=watch)
        counts = {s: len(result.with_status(s)) for s in ("ok", "empty", "failed")}
        print(
            f"archive: {count} runs, {counts}, {spent['wall_s']:.0f} s, "
            f"{count / spent['wall_s']:.1f} runs/s; CPU a run {spent['cpu_s'] / count:.3f} s, "
            f"of which the analyses take {alone_s:.3f} s; "
            f"memory of all processes at most {max(peak) / 2**20:.0f} MiB, "
            f"of this one {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
        )
    reasons = [one.status.reason for one in result.runs if one.status.status != "ok"]
    print(*(f"  {reason}" for reason in sorted(set(map(str, reasons)))), sep="\n")
    assert len(result.with_status("ok")) == runs - BAD, "some good run has no result"
    assert len(reasons) == BAD, "some bad run has a result"
    assert all(reasons), "some bad run has no reason"
    with measured() as spent, mock.patch("nsys_deepprof.cli.batch._engine", return_value=unruly(2)):
        again = run("batch", folder / "archive", "-o", folder / f"out{runs}")
    print(
        f"archive: the command, with nothing to do but those that may end otherwise: "
        f"{again.text.splitlines()[0]}, status {again.code}, {spent['wall_s']:.0f} s"
    )
    assert again.code == SOME_RUNS_FAILED


def workers(folder: Path, runs: int) -> None:
    turns = 100_000 // 11
    files = [training_export(i, turns=turns).write(folder / f"{i}.sqlite") for i in range(16)]
    spent_s = {}
    for count in (1, 2):
        with measured() as spent:
            batch(files, folder / f"out{count}", in_processes(count))
        spent_s[count] = spent["wall_s"]
        print(
            f"workers: {count}: {spent['wall_s']:.1f} s for {len(files)} runs of "
            f"{turns * 11:,} kernels, CPU {spent['cpu_s']:.1f} s (load {os.getloadavg()[0]:.1f})"
        )
    print(f"workers: 2 are {spent_s[1] / spent_s[2]:.2f} times 1")


def killed(folder: Path, runs: int) -> None:
    paths = small_archive(folder / "archive", min(runs, 120), bad=BAD)
    batch(paths, folder / "whole", unruly(2))
    rng, out = random.Random(7), folder / "killed"
    command = [sys.executable, "-m", "tests.benchmarks.batch_killable", str(out), *map(str, paths)]
    kills = 0
    while True:
        process = subprocess.Popen(command, start_new_session=True)
        try:
            process.wait(timeout=rng.uniform(5, 40))
            break
        except subprocess.TimeoutExpired:
            # Only the batch itself: its workers must find out on their own.
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    different = differing(out, folder / "whole")
    print(
        f"killed: {kills} times, then finished with status {process.returncode}; "
        f"files that differ: {different[:5]}"
    )
    assert not different


def dask(folder: Path, runs: int) -> None:
    from nsys_deepprof.batch.dask_engine import on_dask

    paths = small_archive(folder / "archive", runs, bad=BAD)
    batch(paths, folder / "local", unruly(2))
    with cluster(folder, workers=2) as (address, processes), measured() as spent:

        def kill_one(outcome: Outcome, done: int, of: int) -> None:
            if done == of // 2:
                processes[0].send_signal(signal.SIGKILL)

        engine = on_dask(address, module=unruly_worker.MODULE)
        result = batch(paths, folder / "dask", engine, progress=kill_one)
    different = differing(folder / "dask", folder / "local")
    failed = len(result.with_status("failed"))
    print(
        f"dask: {len(paths)} runs, {failed} failed, {spent['wall_s']:.0f} s; "
        f"files that differ: {different[:5]}"
    )
    assert not different


def differing(a: Path, b: Path) -> list[str]:
    """The files that only one of two batches has, or that are not the same in both."""
    return sorted({name for name, _ in digests(a).items() ^ digests(b).items()})


def batch(paths: list[Path], out: Path, engine: Engine, **options: object) -> BatchResult:
    inputs = [BatchInput(str(path), {}) for path in paths]
    return run_batch(inputs, out, engine=engine, limits=LIMITS, **options)  # type: ignore[arg-type]


def unruly(count: int) -> Engine:
    return in_processes(count, module=unruly_worker.MODULE)


def cpu_alone(folder: Path, paths: list[Path]) -> float:
    """CPU time of one run in one process, once everything is imported."""
    out = folder / "alone"
    good = [path for path in paths if path.name.startswith("run")]
    do_run(str(good[0]), out, lambda _: None)
    begun = time.process_time()
    for path in good[1:]:
        do_run(str(path), out, lambda _: None)
    return (time.process_time() - begun) / (len(good) - 1)


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Wall and CPU seconds of the block, those of ended child processes included."""
    spent: dict[str, float] = {}
    begun, cpu = time.monotonic(), _cpu_s()
    yield spent
    spent |= {"wall_s": time.monotonic() - begun, "cpu_s": _cpu_s() - cpu}


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def tree_bytes() -> int:
    """Resident memory of this process and its children."""
    # Workers are children of the threads that wait for them.
    threads = Path("/proc/self/task").glob("*/children")
    children = [pid for thread in threads for pid in thread.read_text().split()]
    pages = 0
    for pid in ("self", *children):
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
