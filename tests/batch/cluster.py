"""A Dask scheduler and worker processes for a while."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
