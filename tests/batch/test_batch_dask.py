"""Batches on a Dask cluster: a scheduler and worker processes that the test starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nsys_deepprof.batch.engines import in_processes
from nsys_deepprof.batch.plan import BatchInput
from nsys_deepprof.batch.run import run_batch
from nsys_deepprof.errors import UsageError
from tests.batch import unruly_worker
from tests.batch.archive import digests, loop_export

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsys_deepprof.batch.engines import Outcome

pytest.importorskip("distributed", reason="the extra `dask` is not installed")

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler's address and its worker processes; all are ended afterwards."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    address_file = folder / "scheduler.json"
    told = folder / "dask.log"

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with told.open("ab") as log:
            command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
            return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)

    with ExitStack() as started:

        def keep(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
            started.callback(process.wait)
            started.callback(process.kill)
            return process

        keep(
            start(
                "dask_scheduler", "--port=0", "--no-dashboard", "--host=127.0.0.1",
                f"--scheduler-file={address_file}",
            )
        )  # fmt: skip
        processes = [
            keep(
                start(
                    "dask_worker", f"--scheduler-file={address_file}", "--nthreads=1",
                    "--no-nanny", "--no-dashboard", f"--name=w{number}",
                )
            )
            for number in range(workers)
        ]  # fmt: skip
        yield _address(address_file, told, workers), processes


def _address(file: Path, told: Path, workers: int) -> str:
    from distributed import Client

    for _ in range(300):
        if file.exists() and file.stat().st_size:
            with Client(scheduler_file=str(file), set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=60)
                return str(client.scheduler.address)
        time.sleep(0.1)
    raise AssertionError(told.read_text())


def inputs(folder: Path, *names: str) -> list[BatchInput]:
    files = [loop_export(3 + i).write(folder / f"{n}.sqlite") for i, n in enumerate(names)]
    return [BatchInput(str(file), {}) for file in files]


def test_a_cluster_gives_the_same_bytes_though_a_worker_is_killed(tmp_path: Path) -> None:
    from nsys_deepprof.batch.dask_engine import on_dask

    asked = inputs(tmp_path, "a", "slow1", "killer", "slow2", "b", "slow3", "slow4", "c")
    with cluster(tmp_path, workers=2) as (address, processes):

        def kill_one(outcome: Outcome, done: int, of: int) -> None:
            if done == 3:
                processes[0].send_signal(signal.SIGKILL)

        engine = on_dask(address, module=unruly_worker.MODULE)
        result = run_batch(asked, tmp_path / "dask", engine=engine, progress=kill_one)
        assert processes[0].wait() == -signal.SIGKILL
        assert processes[1].poll() is None
    assert [run.status.status for run in result.runs].count("ok") == 7
    assert result.with_status("failed")[0].status.identity.path.endswith("killer.sqlite")
    run_batch(asked, tmp_path / "local", engine=in_processes(2, module=unruly_worker.MODULE))
    assert digests(tmp_path / "dask") == digests(tmp_path / "local")


def test_a_run_over_which_dask_workers_die_fails_and_the_rest_goes_on(tmp_path: Path) -> None:
    from nsys_deepprof.batch.dask_engine import on_dask

    asked = inputs(tmp_path, "a", "host-killer", "b")
    with cluster(tmp_path, workers=5) as (address, _):
        engine = on_dask(address, module=unruly_worker.MODULE)
        result = run_batch(asked, tmp_path / "out", engine=engine)
    assert [run.status.status for run in result.runs] == ["ok", "failed", "ok"]
    assert "Dask workers that tried it died" in str(result.runs[1].status.reason)


def test_no_scheduler_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nsys_deepprof.batch import dask_engine

    monkeypatch.setattr(dask_engine, "_CONNECT_S", 1)
    with pytest.raises(UsageError, match="no answer"):
        run_batch(
            inputs(tmp_path, "a"),
            tmp_path / "out",
            engine=dask_engine.on_dask("tcp://127.0.0.1:9"),
        )
