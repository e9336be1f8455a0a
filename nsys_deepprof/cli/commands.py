"""How a table command is made: a function from a trace to a result gets the shared options."""

# Annotations are live objects here and in `app`: Typer reads them, so they are not postponed.
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsys_deepprof.cli.options import Format
from nsys_deepprof.errors import UsageError

if TYPE_CHECKING:
    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace

_RUN_HELP = (
    "An nsys export (SQLite, also .gz or .zst, or a parquetdir), a converted directory, "
    "or an .nsys-rep."
)


def _run_argument(metavar: str) -> Any:
    return Annotated[str, typer.Argument(metavar=metavar, help=_RUN_HELP, show_default=False)]


RunArgument = _run_argument("RUN")

NsysOption = Annotated[
    str | None,
    typer.Option(
        "--nsys",
        metavar="PROGRAM",
        envvar="NSYS_DEEPPROF_NSYS",
        help="The nsys that exports an .nsys-rep. Default: the one on PATH.",
        show_default=False,
    ),
]


HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE.html", help="Also write a page.", show_default=False),
]


def _window_options(  # noqa: PLR0917 - one for each option
    from_ms: Annotated[
        float | None,
        typer.Option("--from", metavar="MS", help="From this time on, ms from the trace's start."),
    ] = None,
    to_ms: Annotated[
        float | None, typer.Option("--to", metavar="MS", help="Up to this time, likewise.")
    ] = None,
    nvtx: Annotated[
        str | None,
        typer.Option(
            "--nvtx", metavar="NAME", help="Only GPU work launched inside NVTX ranges of this name."
        ),
    ] = None,
    gpu: Annotated[
        list[int] | None,
        typer.Option("--gpu", "--device", metavar="N", help="Only this GPU; repeatable."),
    ] = None,
    comm: Annotated[
        list[str] | None,
        typer.Option(
            "--comm", metavar="REGEX", help="Kernels so named are communication too; repeatable."
        ),
    ] = None,
    nsys: NsysOption = None,
) -> None:
    """Declares the options that choose what of a trace is analysed, and how it is opened."""


def _row_options(
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="How to write the rows; md is for findings.")
    ] = Format.TABLE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=0,
            metavar="N",
            help="Rows to show; 0 for all. A table shows a screenful, other formats show all.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Declares the options that say how rows are written."""


def say(line: str) -> None:
    """Pass on what another program said."""
    typer.echo(line, err=True)


def open_run(run: str, options: dict[str, Any]) -> "Trace":
    """Open `run`, narrowed by the window options, which are taken out of `options`."""
    from nsys_deepprof.opening import open_trace
    from nsys_deepprof.windows import narrow

    trace = open_trace(
        run,
        comm_patterns=options.pop("comm") or (),
        nsys=options.pop("nsys"),
        message=say,
    )
    return narrow(
        trace,
        from_ms=options.pop("from_ms"),
        to_ms=options.pop("to_ms"),
        nvtx=options.pop("nvtx"),
        gpus=options.pop("gpu") or None,
    )


_LARGEST = 1e15
"""Above any time or rate that an option can mean; times have to stay 64-bit integers of ns."""


def _check_numbers(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if isinstance(value, float) and not abs(value) <= _LARGEST:
            option = "--" + name.removesuffix("_ms").replace("_", "-")
            raise UsageError(f"{option} {value}", "not a number that means anything here")


def windowed(command: Callable[..., None]) -> Callable[..., None]:
    """A command of (trace, run, ...) as one of (RUN, ..., window options)."""

    def call(run: str, **options: Any) -> None:
        _check_numbers(options)
        trace = open_run(run, options)
        command(trace, run, **options)

    return _declare(
        call,
        command,
        own=_parameters(command)[2:],
        shared=[_window_options],
        arguments={"run": RunArgument},
    )


def table(analysis: Callable[..., "Result"]) -> Callable[..., None]:
    """An analysis of (trace, *, ...) as a command of (RUN, ..., row and window options)."""
    return _table(analysis, {"run": RunArgument})


def comparison(analysis: Callable[..., "Result"]) -> Callable[..., None]:
    """An analysis of (trace, trace, *, ...) as a command of (A, B, ...), as `table`."""
    return _table(analysis, {"a": _run_argument("A"), "b": _run_argument("B")})


def together(analysis: Callable[..., "Result"]) -> Callable[..., None]:
    """An analysis of (traces, *, ...) as a command of (RUN..., ...), as `table`."""
    runs = typer.Argument(
        metavar="RUN",
        help="Runs as for the other commands, folders and patterns: all files of one job.",
        show_default=False,
    )
    return _table(analysis, {"runs": Annotated[list[str], runs]})


def _table(analysis: Callable[..., "Result"], arguments: dict[str, Any]) -> Callable[..., None]:
    """A command that opens its arguments, writes what the analysis says of them, and ends with
    status 1 where that has a `passed` which is False."""

    def call(**options: Any) -> None:
        from nsys_deepprof.cli.writing import write

        _check_numbers(options)
        given = [_runs(options.pop(name)) for name in arguments]
        chosen = {p.name: options.pop(p.name) for p in _parameters(_window_options)}
        rows = {p.name: options.pop(p.name) for p in _parameters(_row_options)}
        traces = [
            [open_run(run, dict(chosen)) for run in one]
            if isinstance(one, list)
            else open_run(one, dict(chosen))
            for one in given
        ]
        result = analysis(*traces, **options)
        opened = [t for one in traces for t in (one if isinstance(one, list) else [one])]
        runs = [Path(run) for one in given for run in (one if isinstance(one, list) else [one])]
        write(result, opened, runs=runs, **rows)
        if result.extra.get("passed") is False:
            raise typer.Exit(1)

    return _declare(
        call,
        analysis,
        own=_parameters(analysis)[len(arguments) :],
        shared=[_row_options, _window_options],
        arguments=arguments,
    )


def _runs(given: str | list[str]) -> str | list[str]:
    """A run as it is; of several, folders and patterns as the runs that they hold."""
    if isinstance(given, str):
        return given
    from nsys_deepprof.batch.inputs import find_inputs

    return find_inputs(given)


def _declare(
    call: Callable[..., None],
    command: Callable[..., Any],
    *,
    own: list[inspect.Parameter],
    shared: list[Callable[..., None]],
    arguments: dict[str, Any],
) -> Callable[..., None]:
    """Give `call` the name, help and options that the command line shows."""
    positional = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
        for name, annotation in arguments.items()
    ]
    options = [*own, *(p for declaration in shared for p in _parameters(declaration))]
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in options]
    parameters = [*positional, *keywords]
    call.__name__ = command.__name__
    call.__doc__ = command.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())
