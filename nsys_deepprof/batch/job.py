"""One run of a batch: from its path to its directory under `runs/`."""

from __future__ import annotations

import os
import shutil
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import polars as pl

from nsys_deepprof.analyses.report_data import report_data
from nsys_deepprof.batch import status as state
from nsys_deepprof.batch.headline import run_results
from nsys_deepprof.batch.lake import write_results
from nsys_deepprof.batch.status import RunIdentity, RunStatus
from nsys_deepprof.dataset import convert, read_manifest
from nsys_deepprof.errors import DeepProfError, InputError, OutputError
from nsys_deepprof.opening import open_trace
from nsys_deepprof.replacing import replacing
from nsys_deepprof.reports.html import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.trace import Trace

T = TypeVar("T")


def do_run(
    path: str, out: Path, identified: Callable[[RunIdentity], None]
) -> tuple[RunStatus, bool]:
    """Do the run at `path`, unless `out` has it: its status, and whether it was there already.

    Depends on nothing but the run's content and path, so results are the same wherever, whenever
    and beside whatever else it is done. `identified` is called once the content is known. An input
    that cannot be used is a failed run and no error; OutputError is raised where `out` cannot be
    written.
    """
    stamp = _stamp(path)
    try:
        identity = state.identify(path)
    except DeepProfError as error:
        identity = state.unread(path)
        return state.record_failure(identity, out, _reason(error, path), transient=True), False
    identified(identity)
    home = state.run_home(out, identity.run_id)
    for place in (home, out / state.UNLISTED / identity.run_id):
        known = state.read_status(place)
        if known is not None and state.is_done(known):
            if place != home:
                shutil.rmtree(home, ignore_errors=True)
                place.rename(home)
            return known, True

    def failed(reason: str, *, transient: bool = False) -> tuple[RunStatus, bool]:
        return state.record_failure(identity, out, reason, transient=transient), False

    try:
        return _make(identity, path, home, stamp), False
    except OutputError:
        raise
    except DeepProfError as error:
        return failed(_reason(error, path))
    except MemoryError:
        return failed("out of memory", transient=True)
    except BaseException as error:
        # The border of a run: nothing of it may pass, and a panic in polars is no Exception.
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        cause = error.__cause__ if isinstance(error, _ComputationError) else None
        return failed(_defect(cause or error))


def _make(identity: RunIdentity, path: str, home: Path, stamp: object) -> RunStatus:
    with replacing(home, check=lambda: None) as building:
        trace = _open(path, home, building)
        if _stamp(path) != stamp:
            raise InputError(path, "changed while it was read", "wait until it is complete")
        results = _computed(run_results, trace)
        report = _computed(_report, trace)
        write_results(building / "results", identity.run_id, results.frames)
        (building / "report.html").write_text(report, encoding="utf-8")
        empty = trace.table("gpus").height == 0
        status = RunStatus(
            identity,
            state.EMPTY if empty else state.OK,
            state.NO_GPU_ACTIVITY if empty else None,
            versions=state.versions(),
            warnings=results.warnings,
            metrics=results.metrics,
        )
        state.write_status(building, status)
    return status


def _open(path: str, home: Path, building: Path) -> Trace:
    """The run's trace, over a dataset in `building` unless it is one already."""
    if state.is_dataset(Path(path)):
        return open_trace(path)
    dataset = building / "dataset"
    with suppress(OSError, InputError):
        # Where only the rules have changed the conversion finds its work done.
        read_manifest(home / "dataset")
        (home / "dataset").rename(dataset)
    convert(path, dataset)
    return open_trace(dataset)


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _report(trace: Trace) -> str:
    return render(report_data(trace))


class _ComputationError(Exception):
    """An analysis broke: never to be taken for an output that cannot be written."""


def _computed(function: Callable[[Trace], T], trace: Trace) -> T:
    try:
        return function(trace)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _ComputationError from error


def _reason(error: DeepProfError, path: str) -> str:
    """The error as a line, without the path where that is the run itself."""
    return error.line().removeprefix(f"{path}: ")


def _defect(error: BaseException) -> str:
    first_line = str(error).partition("\n")[0]
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    return f"internal error: {type(error).__name__}: {first_line} ({place})"
