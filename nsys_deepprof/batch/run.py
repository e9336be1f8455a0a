"""A whole batch: runs done by an engine, then the catalogue and the page over all of them."""

from __future__ import annotations

import fcntl
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nsys_deepprof.atomic import new_file
from nsys_deepprof.batch import status as state
from nsys_deepprof.batch.isolation import Limits
from nsys_deepprof.batch.plan import BatchInput, KeptRun, Plan, read_plan, write_plan
from nsys_deepprof.batch.status import ListedRun
from nsys_deepprof.errors import InputError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from nsys_deepprof.batch.engines import Engine, Outcome
    from nsys_deepprof.batch.status import RunStatus

CATALOG = "catalog.sqlite"
PAGE = "index.html"
_LOCK = ".nsys-deepprof-batch"


@dataclass(frozen=True)
class BatchResult:
    """What a batch did: its runs in order, of which `skipped` were done before."""

    out: Path
    runs: tuple[ListedRun, ...]
    skipped: int

    def with_status(self, status: str) -> list[ListedRun]:
        """The runs that are 'ok', 'empty' or 'failed'."""
        return [run for run in self.runs if run.status.status == status]


def run_batch(
    inputs: Sequence[BatchInput],
    out: Path,
    *,
    engine: Engine,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    keep: bool = False,
    progress: Callable[[Outcome, int, int], None] | None = None,
) -> BatchResult:
    """Do every run of `inputs` that `out` does not hold yet; write the catalogue and the page.

    Runs of earlier batches that are not among `inputs` go to `out/unlisted`, from where they come
    back when they are asked for again. With `keep` they stay listed, before the new ones, whether
    or not their sources still exist; those among them that are not done are tried again.
    `progress(outcome, done, of)` is called after each run.

    Raises OutputError where `out` cannot be written or another batch is writing it. A failed run
    is no error: its status says why it failed.
    """
    with _locked(out):
        kept, again = _earlier(out) if keep else ((), ())
        named = {i.path for i in inputs}
        again = tuple(i for i in again if i.path not in named)
        return _carry_out(Plan((*again, *inputs), kept), out, engine, limits, progress)


def resume_batch(
    out: Path,
    *,
    engine: Engine,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    progress: Callable[[Outcome, int, int], None] | None = None,
) -> BatchResult:
    """Do what is left of the batch that was begun in `out`. InputError where there is none."""
    if not out.is_dir():
        raise InputError(out, "holds no batch", "name the inputs")
    with _locked(out):
        return _carry_out(read_plan(out), out, engine, limits, progress)


def _carry_out(
    plan: Plan,
    out: Path,
    engine: Engine,
    limits: Limits,
    progress: Callable[[Outcome, int, int], None] | None,
) -> BatchResult:
    with _writing(out):
        write_plan(out, replace(plan, listed=None))
        (out / state.RUNS).mkdir(exist_ok=True)
        (out / state.UNLISTED).mkdir(exist_ok=True)
        _clear_unfinished(out)
    statuses: dict[str, RunStatus] = {}
    skipped = 0
    for outcome in engine([i.path for i in plan.inputs], out, limits):
        statuses[outcome.path] = _brief(outcome.status)
        skipped += outcome.skipped
        if progress is not None:
            progress(outcome, len(statuses), len(plan.inputs))
    found = {i.path: statuses[i.path].identity.run_id for i in plan.inputs}
    runs = {
        kept.run_id: ListedRun(_brief(status), kept.tags)
        for kept in plan.kept
        if kept.run_id not in found.values()
        and (status := state.read_status(state.run_home(out, kept.run_id))) is not None
    }
    runs |= {found[i.path]: ListedRun(statuses[i.path], i.tags) for i in plan.inputs}
    with _writing(out):
        _clear_unfinished(out)
        _unlist(out, set(runs))
        _write_overview(out, list(runs.values()))
        paths = {k.run_id: k.path for k in plan.kept} | {found[p]: p for p in found}
        listed = tuple(KeptRun(i, paths[i], run.tags) for i, run in runs.items())
        write_plan(out, replace(plan, listed=listed))
    return BatchResult(out, tuple(runs.values()), skipped)


def _earlier(out: Path) -> tuple[tuple[KeptRun, ...], tuple[BatchInput, ...]]:
    """What the last batch in `out` listed: runs that are done, and those to try again."""
    try:
        plan = read_plan(out)
    except InputError:
        return (), ()
    kept, again = [], []
    for run in plan.kept if plan.listed is None else plan.listed:
        if state.is_done(state.read_status(state.run_home(out, run.run_id))):
            kept.append(run)
        else:
            again.append(BatchInput(run.path, run.tags))
    return tuple(kept), (*again, *(plan.inputs if plan.listed is None else ()))


def _brief(status: RunStatus) -> RunStatus:
    # Thousands of runs are held in memory: their figures stay in their files.
    return replace(status, metrics={}, warnings=())


def _write_overview(out: Path, runs: Sequence[ListedRun]) -> None:
    from nsys_deepprof.batch.catalog import write_catalog
    from nsys_deepprof.batch.page import archive_page
    from nsys_deepprof.reports.trend import render

    write_catalog(out / CATALOG, out, runs)
    text = render(archive_page(out, out / CATALOG))
    with new_file(out / PAGE) as building:
        building.write_text(text, encoding="utf-8")


def _clear_unfinished(out: Path) -> None:
    """Remove what killed workers left half-made; only the lock's holder may."""
    for left in (out / state.RUNS).glob(".*"):
        shutil.rmtree(left, ignore_errors=True)


def _unlist(out: Path, listed: set[str]) -> None:
    """Take runs that are not listed out of `runs/`, so that scanning it gives the listed ones."""
    for home in sorted((out / state.RUNS).iterdir()):
        if home.name in listed:
            continue
        status = state.read_status(home)
        aside = out / state.UNLISTED / home.name
        shutil.rmtree(aside, ignore_errors=True)
        if status is None or status.status == state.FAILED:
            shutil.rmtree(home)
        else:
            home.rename(aside)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Keep other batches out of `out`; the lock goes with the process, however that ends."""
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not (out / _LOCK).exists():
            # Directories of a batch are ours to clear: another's must never be taken for one.
            what = "is not empty, and not a batch's directory"
            raise OutputError(out, what, "name a new one with -o")
        lock = (out / _LOCK).open("w")
    with lock:
        with _writing(out):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                what = "another batch is writing here"
                raise OutputError(out, what, "wait until it ends") from error
        yield


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            out, f"cannot be written: {reason}", "check space and permissions"
        ) from error
