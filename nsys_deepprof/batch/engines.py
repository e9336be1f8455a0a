"""Where runs are done: here in worker processes, or on a Dask cluster.

An engine maps paths to outcomes, in any order. Whatever the engine, each run is done in an isolated
process (see `isolation`), so a run that crashes, hangs or takes too much memory is that run's
failure and nobody else's.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from nsys_deepprof.batch import status as state
from nsys_deepprof.batch.isolation import Death, IsolatedWorker, Limits
from nsys_deepprof.batch.status import RunIdentity, RunStatus
from nsys_deepprof.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Engine = Callable[[Sequence[str], Path, Limits], Iterator["Outcome"]]

WORKER = "nsys_deepprof.batch.worker"


@dataclass(frozen=True)
class Outcome:
    """How the run at `path` went, and whether that was known from an earlier batch."""

    path: str
    status: RunStatus
    skipped: bool


def in_processes(workers: int, *, module: str = WORKER) -> Engine:
    """The engine of `workers` processes on this machine, each running the program `module`."""

    def run(paths: Sequence[str], out: Path, limits: Limits) -> Iterator[Outcome]:
        pool = [IsolatedWorker(module) for _ in range(min(workers, len(paths)))]
        idle: SimpleQueue[IsolatedWorker] = SimpleQueue()
        for worker in pool:
            idle.put(worker)

        def one(path: str) -> Outcome:
            worker = idle.get()
            try:
                return do_isolated(worker, path, out, limits)
            finally:
                idle.put(worker)

        with ThreadPoolExecutor(max_workers=max(1, len(pool))) as threads:
            try:
                for future in as_completed([threads.submit(one, path) for path in paths]):
                    yield future.result()
            finally:
                # Also when the caller stops asking (Ctrl-C): nothing runs on behind its back.
                for worker in pool:
                    worker.close()
                threads.shutdown(cancel_futures=True)
                for worker in pool:
                    worker.stop()

    return run


def do_isolated(worker: IsolatedWorker, path: str, out: Path, limits: Limits) -> Outcome:
    """Do one run in `worker`.

    When its process dies it is tried once more, as the system may have been short of memory; then
    it has failed.
    """
    identity = state.unread(path)

    def identified(notice: dict[str, Any]) -> None:
        nonlocal identity
        identity = RunIdentity(**notice)

    def ask() -> dict[str, Any] | Death:
        return worker.ask({"path": path, "out": str(out)}, limits, identified)

    answer = ask()
    if isinstance(answer, Death) and answer.again:
        answer = ask()
    if isinstance(answer, Death):
        if worker.closing:
            raise _StoppedError
        return lost(identity, path, out, answer.reason)
    if "fatal" in answer:
        raise OutputError(*answer["fatal"])
    return Outcome(path, state.status_of(answer["status"]), answer["skipped"])


def lost(identity: RunIdentity, path: str, out: Path, reason: str) -> Outcome:
    """The outcome of a run that gave no answer, written down."""
    status = state.record_failure(identity, out, reason, transient=True)
    return Outcome(path, status, skipped=False)


class _StoppedError(Exception):
    """Its batch was stopped: the run neither worked nor failed."""
