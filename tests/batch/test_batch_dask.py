"""Batches on a Dask cluster: a scheduler and worker processes that the test starts."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from nsys_deepprof.batch.engines import in_processes
from nsys_deepprof.batch.plan import BatchInput
from nsys_deepprof.batch.run import run_batch
from nsys_deepprof.errors import UsageError
from tests.batch import unruly_worker
from tests.batch.archive import digests, loop_export
from tests.batch.cluster import cluster

if TYPE_CHECKING:
    from pathlib import Path

    from nsys_deepprof.batch.engines import Outcome

pytest.importorskip("distributed", reason="the extra `dask` is not installed")


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
