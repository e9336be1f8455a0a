"""Runs on a Dask cluster: each Dask worker keeps isolated processes and does runs in them."""

from __future__ import annotations

import uuid
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from distributed import Client, KilledWorker, WorkerPlugin, as_completed, get_worker

from nsys_deepprof import __version__
from nsys_deepprof.batch.engines import WORKER, Outcome, do_isolated, lost
from nsys_deepprof.batch.isolation import IsolatedWorker, Limits
from nsys_deepprof.batch.status import unread
from nsys_deepprof.errors import OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nsys_deepprof.batch.engines import Engine

_CONNECT_S = 30


def on_dask(address: str, *, module: str = WORKER) -> Engine:
    """The engine of the Dask cluster whose scheduler is at `address` (`tcp://host:8786`).

    Its workers start processes of the program `module`, each for one of their threads.
    Its workers read the inputs and write the output by path, so both have to be on storage that
    all of them see, and they need this version of this package. A run whose Dask worker dies is
    done again by another one; when that has happened as often as the scheduler allows
    (`distributed.scheduler.allowed-failures`), it failed.

    Raises UsageError where nothing answers at `address`, or with another version.
    """

    def run(paths: Sequence[str], out: Path, limits: Limits) -> Iterator[Outcome]:
        try:
            client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"--scheduler {address}", f"no answer: {error}") from error
        with client:
            _check_versions(client, address)
            # Two batches on one cluster keep their processes apart.
            plugin = f"nsys-deepprof-{uuid.uuid4().hex}"
            client.register_plugin(_Processes(module), name=plugin)
            try:
                yield from _outcomes(client, plugin, paths, out, limits)
            finally:
                client.unregister_worker_plugin(plugin)

    return run


def _outcomes(
    client: Client, plugin: str, paths: Sequence[str], out: Path, limits: Limits
) -> Iterator[Outcome]:
    futures = client.map(
        _do_on_worker, paths, out=str(out), limits=limits, plugin=plugin, pure=False
    )
    path_of = {future.key: path for future, path in zip(futures, paths, strict=True)}
    done = as_completed(futures, loop=client.loop, with_results=True, raise_errors=False)
    del futures
    for future, result in done:
        if future.status == "finished":
            yield result
        else:
            yield _without_answer(path_of[future.key], out, result)


def _check_versions(client: Client, address: str) -> None:
    there = set(client.run(_version).values())
    if there - {__version__}:
        found = ", ".join(sorted(there))
        raise UsageError(f"--scheduler {address}", f"workers have version {found} of this package")


def _version() -> str:
    return __version__


class _Processes(WorkerPlugin):
    """The isolated processes of one Dask worker: one for each of its threads."""

    def __init__(self, module: str) -> None:
        self.module = module

    def setup(self, worker: Any) -> None:
        threads = worker.state.nthreads
        self.processes = [IsolatedWorker(self.module) for _ in range(threads)]
        self.idle: SimpleQueue[IsolatedWorker] = SimpleQueue()
        for process in self.processes:
            self.idle.put(process)
        limit = worker.memory_manager.memory_limit
        self.memory_bytes = limit // threads if limit else None

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 - the plugin interface
        for process in self.processes:
            process.close()
        # Those at work see it themselves.
        while not self.idle.empty():
            self.idle.get().stop()


def _do_on_worker(path: str, *, out: str, limits: Limits, plugin: str) -> Outcome:
    mine = get_worker().plugins[plugin]
    assert isinstance(mine, _Processes)
    process = mine.idle.get()
    here = Limits(limits.timeout_s, limits.memory_bytes or mine.memory_bytes)
    try:
        return do_isolated(process, path, Path(out), here)
    finally:
        mine.idle.put(process)


def _without_answer(path: str, out: Path, error: Any) -> Outcome:
    # A failure comes as (type, exception, traceback).
    failure = error[1] if isinstance(error, tuple) else error
    if isinstance(failure, OutputError):
        raise failure
    if isinstance(failure, KilledWorker):
        return lost(unread(path), path, out, "the Dask workers that tried it died")
    return lost(unread(path), path, out, f"Dask: {type(failure).__name__}: {failure}")
