"""The batch command: inputs, engine and limits from options; progress and summary in words."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsys_deepprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nsys_deepprof.batch.engines import Engine, Outcome
    from nsys_deepprof.batch.isolation import Limits
    from nsys_deepprof.batch.plan import BatchInput
    from nsys_deepprof.batch.run import BatchResult

SOME_RUNS_FAILED = 4
_TOLD = 20


def batch(
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where everything goes.")
    ],
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH",
            help="Runs, folders (searched), patterns, or - for a list on standard input.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=1, help="Processes here. Default: one a core."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDR", help="A Dask scheduler, instead of processes."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with an interrupted batch; without PATH, with its own inputs."
        ),
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the runs that DIR has; the new ones come after.")
    ] = False,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", min=0, metavar="S", help="A run that takes longer has failed."),
    ] = None,
    memory_gib: Annotated[
        float | None,
        typer.Option(
            "--memory",
            min=0,
            metavar="GIB",
            help="A run that needs more has failed. Default: an equal share of 90 % of the memory.",
            show_default=False,
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", metavar="PATTERN", help="Only files of folders so named; repeatable."
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="KEY=VALUE", help="A tag of all these runs; repeatable."),
    ] = None,
    tag_path: Annotated[
        list[str] | None,
        typer.Option(
            "--tag-path",
            metavar="TEMPLATE",
            help="Tags from the path's end: '{model}/{gpu}-bs{batch}.sqlite'; repeatable.",
        ),
    ] = None,
) -> None:
    """Many runs: datasets, reports, a catalogue and trends.

    Runs that DIR has already, of the same content and made by this version, are not done again.
    """
    from nsys_deepprof.batch.run import resume_batch, run_batch

    count = workers or len(os.sched_getaffinity(0))
    limits = _limits(timeout_s, memory_gib, None if scheduler else count)
    engine = _engine(count, scheduler)
    with _progress() as progress:
        if paths:
            inputs = _inputs(paths, output, include or [], tag or [], tag_path or [])
            result = run_batch(
                inputs, output, engine=engine, limits=limits, keep=keep, progress=progress
            )
        elif resume:
            result = resume_batch(output, engine=engine, limits=limits, progress=progress)
        else:
            raise UsageError("PATH", "no input is named", "name runs, or --resume a batch")
    _tell(result)
    if result.with_status("failed"):
        raise typer.Exit(SOME_RUNS_FAILED)


def _inputs(
    paths: list[str], output: Path, include: list[str], tags: list[str], templates: list[str]
) -> "list[BatchInput]":
    from nsys_deepprof.batch.inputs import find_inputs
    from nsys_deepprof.batch.plan import BatchInput
    from nsys_deepprof.batch.tags import parse_tags, path_tagger, tags_of

    fixed = parse_tags(tags)
    taggers = [path_tagger(template) for template in templates]
    found = find_inputs(paths, listed=sys.stdin, include=include, exclude_dir=output)
    if not found:
        raise UsageError("PATH", "the list of inputs is empty")
    return [BatchInput(path, tags_of(path, fixed, taggers)) for path in found]


def _limits(timeout_s: float | None, memory_gib: float | None, workers: int | None) -> "Limits":
    from nsys_deepprof.batch.isolation import Limits, memory_share

    if memory_gib:
        return Limits(timeout_s or None, round(memory_gib * (1 << 30)))
    return Limits(timeout_s or None, None if workers is None else memory_share(workers))


def _engine(workers: int, scheduler: str | None) -> "Engine":
    if scheduler is None:
        from nsys_deepprof.batch.engines import in_processes

        return in_processes(workers)
    try:
        from nsys_deepprof.batch.dask_engine import on_dask
    except ImportError as error:
        hint = "pip install nsys-deepprof[dask]"
        raise UsageError("--scheduler", "Dask is not installed", hint) from error
    return on_dask(scheduler)


@contextmanager
def _progress() -> "Iterator[Callable[[Outcome, int, int], None] | None]":
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    failed = 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("runs", total=None, rate="", failed="")

        def update(outcome: "Outcome", done: int, of: int) -> None:
            nonlocal failed
            failed += outcome.status.status == "failed"
            bars.update(
                task,
                completed=done,
                total=of,
                rate=f"{bars.tasks[0].speed or 0:.1f} runs/s",
                failed=f"{failed} failed" if failed else "",
            )

        yield update


def _tell(result: "BatchResult") -> None:
    from nsys_deepprof.batch.run import CATALOG, PAGE

    counts = [f"{len(result.with_status(s)):,} {s}" for s in ("ok", "empty", "failed")]
    before = f" ({result.skipped:,} done before)" if result.skipped else ""
    typer.echo(f"{len(result.runs):,} runs: {', '.join(counts)}{before}")
    typer.echo(result.out / CATALOG)
    typer.echo(result.out / PAGE)
    failed = result.with_status("failed")
    for run in failed[:_TOLD]:
        typer.echo(f"failed: {run.status.identity.path}: {run.status.reason}", err=True)
    if len(failed) > _TOLD:
        typer.echo(f"and {len(failed) - _TOLD:,} more: see {CATALOG}, view failed_runs", err=True)
