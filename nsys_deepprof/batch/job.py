"""One run of a batch: from its path to its directory under `runs/`."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nsys_deepprof.atomic import new_directory
from nsys_deepprof.batch import status as state
from nsys_deepprof.batch.status import RunIdentity, RunStatus
from nsys_deepprof.dataset import convert, read_manifest
from nsys_deepprof.errors import DeepProfError, InputError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.trace import Trace

RUNS = "runs"
UNLISTED = "unlisted"


def run_home(out: Path, run_id: str) -> Path:
    """The directory of a run in the batch directory `out`."""
    return out / RUNS / run_id


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
        return _failed(identity, out, _reason(error, path), transient=True), False
    identified(identity)
    home = run_home(out, identity.run_id)
    for place in (home, out / UNLISTED / identity.run_id):
        known = state.read_status(place)
        if known is not None and state.is_done(known):
            if place != home:
                shutil.rmtree(home, ignore_errors=True)
                place.rename(home)
            return known, True
    try:
        return _make(identity, path, home, stamp), False
    except OutputError:
        raise
    except DeepProfError as error:
        return _failed(identity, out, _reason(error, path), transient=False), False
    except MemoryError:
        return _failed(identity, out, "out of memory", transient=True), False
    except BaseException as error:
        # The border of a run: nothing of it may pass, and a panic in polars is no Exception.
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return _failed(identity, out, _defect(error), transient=False), False


def record_failure(identity: RunIdentity, out: Path, reason: str, *, transient: bool) -> RunStatus:
    """Write down that a run failed, in the place of whatever it left before."""
    return _failed(identity, out, reason, transient=transient)


def _make(identity: RunIdentity, path: str, home: Path, stamp: object) -> RunStatus:
    from nsys_deepprof.batch.headline import run_results
    from nsys_deepprof.batch.lake import write_results

    with new_directory(home) as building:
        trace = _open(path, home, building)
        if _stamp(path) != stamp:
            raise InputError(path, "changed while it was read", "wait until it is complete")
        results = run_results(trace)
        write_results(building / "results", identity.run_id, results.frames)
        _write_report(trace, building / "report.html")
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
    from nsys_deepprof.trace import open_trace

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


def _write_report(trace: Trace, file: Path) -> None:
    from importlib.util import find_spec

    if find_spec("nsys_deepprof.reports.html") is None:
        return
    from nsys_deepprof.analyses.report_data import report_data
    from nsys_deepprof.reports.html import render

    file.write_text(render(report_data(trace)), encoding="utf-8")


def _failed(identity: RunIdentity, out: Path, reason: str, *, transient: bool) -> RunStatus:
    status = RunStatus(
        identity, state.FAILED, reason, transient=transient, versions=state.versions()
    )
    home = run_home(out, identity.run_id)
    try:
        with new_directory(home) as building:
            state.write_status(building, status)
    except OSError as error:
        raise OutputError(home, f"cannot be written: {error.strerror or error}") from error
    return status


def _reason(error: DeepProfError, path: str) -> str:
    """The error as a line, without the path where that is the run itself."""
    return error.line().removeprefix(f"{path}: ")


def _defect(error: BaseException) -> str:
    first_line = str(error).partition("\n")[0]
    return f"internal error: {type(error).__name__}: {first_line}"
