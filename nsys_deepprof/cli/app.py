"""The commands: each opens a run, asks one analysis, and hands its result to a writer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsys_deepprof.cli.batch import batch
from nsys_deepprof.cli.commands import NsysOption, RunArgument, say, table, windowed
from nsys_deepprof.cli.export import export
from nsys_deepprof.cli.gates import check, diff
from nsys_deepprof.cli.options import Symbols
from nsys_deepprof.cli.ranks import ranks

if TYPE_CHECKING:
    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace

app = typer.Typer(
    name="nsys-deepprof",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


SymbolsOption = Annotated[
    Symbols,
    typer.Option(
        "--symbols",
        help="Operations are equal by kernel name; by name and launch shape; or by name less "
        "template arguments and what builds generate, to compare builds.",
    ),
]
CopiesOption = Annotated[
    bool, typer.Option("--with-copies", help="Take copies and memsets into the sequence.")
]


def _version(asked: bool) -> None:
    if asked:
        from nsys_deepprof import __version__

        typer.echo(f"nsys-deepprof {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Answers from NVIDIA Nsight Systems exports: what repeats, and why the GPU waits.

    Start with `findings RUN`: what to change first. `report RUN` is all of it on one page.
    """


@app.command()
def convert(
    run: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Default: RUN with suffix .deepprof."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a dataset that is there.")
    ] = False,
    nsys: NsysOption = None,
) -> None:
    """Write the dataset of an export: Parquet and a manifest."""
    from nsys_deepprof.cli.progress import conversion_progress
    from nsys_deepprof.dataset import convert as convert_run

    with conversion_progress() as progress:
        done = convert_run(run, output, force=force, nsys=nsys, message=say, progress=progress)
    rows = sum(done.rows.values())
    dropped = sum(n for reasons in done.dropped.values() for n in reasons.values())
    what = "up to date" if done.up_to_date else f"{rows:,} rows"
    lost = f", {dropped:,} dropped (see `nsys-deepprof info`)" if dropped else ""
    typer.echo(f"{done.path}: {what}{lost}")


@app.command()
@table
def info(trace: "Trace") -> "Result":
    """What was captured, each GPU's time by state, warnings."""
    from nsys_deepprof.analyses.info import info as analyse

    return analyse(trace)


@app.command()
@table
def patterns(
    trace: "Trace", symbols: SymbolsOption = Symbols.NAMES, with_copies: CopiesOption = False
) -> "Result":
    """Repeated sequences and the loop nest of each lane."""
    from nsys_deepprof.analyses.patterns import patterns as analyse

    return analyse(trace, symbols=symbols.value, with_copies=with_copies)


@app.command()
@table
def iterations(
    trace: "Trace",
    unit: Annotated[
        int | None,
        typer.Option(
            "--unit", min=1, metavar="N", help="Another level: the loop of about N operations."
        ),
    ] = None,
    all_lanes: Annotated[
        bool, typer.Option("--all-lanes", help="Every lane, not only the main one of each GPU.")
    ] = False,
    symbols: SymbolsOption = Symbols.NAMES,
    with_copies: CopiesOption = False,
) -> "Result":
    """One row per iteration, by state; the slow ones explained."""
    from nsys_deepprof.analyses.iterations import iterations as analyse

    return analyse(
        trace, unit=unit, all_lanes=all_lanes, symbols=symbols.value, with_copies=with_copies
    )


@app.command()
@table
def gaps(
    trace: "Trace",
    min_us: Annotated[
        float, typer.Option("--min-us", min=0, metavar="X", help="List gaps of at least X µs.")
    ] = 10,
) -> "Result":
    """Idle gaps of each GPU, longest first, and what caused them."""
    from nsys_deepprof.analyses.gaps import gaps as analyse

    return analyse(trace, min_gap_ns=round(min_us * 1000))


@app.command()
@table
def memcpy(
    trace: "Trace",
    blocking: Annotated[
        bool, typer.Option("--blocking", help="Only copies that block the host.")
    ] = False,
    link_peak: Annotated[
        float | None,
        typer.Option(
            "--link-peak",
            min=0,
            metavar="GB/S",
            help="Peak of the link to the host, one direction; by default from the GPU's name.",
            show_default=False,
        ),
    ] = None,
) -> "Result":
    """Copies, blocking ones first: exposed and host-blocked time."""
    from nsys_deepprof.analyses.memcpy import memcpy as analyse

    return analyse(trace, only_blocking=blocking, link_peak_gbps=link_peak)


@app.command()
@table
def kernels(
    trace: "Trace",
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            metavar="NAME=REGEX",
            help="Also total the kernels whose name matches; repeatable, or a TOML file.",
        ),
    ] = None,
    short: Annotated[
        bool, typer.Option("--short", help="By name without template arguments.")
    ] = False,
) -> "Result":
    """Kernels by total time: share, launch and queue time."""
    from nsys_deepprof.analyses.kernels import kernels as analyse
    from nsys_deepprof.cli.groups import parse_groups

    return analyse(trace, short_names=short, groups=parse_groups(group or []))


@app.command()
@table
def launches(trace: "Trace") -> "Result":
    """Launch calls, queues and short kernels of each stream."""
    from nsys_deepprof.analyses.launches import launches as analyse

    return analyse(trace)


@app.command()
@table
def communication(trace: "Trace") -> "Result":
    """Communication by operation: exposed, overlapped, waiting."""
    from nsys_deepprof.analyses.communication import communication as analyse

    return analyse(trace)


@app.command()
@table
def findings(trace: "Trace") -> "Result":
    """What to change first, by the time that it can give back."""
    from nsys_deepprof.analyses.findings import findings as analyse

    return analyse(trace)


@app.command()
@windowed
def report(
    trace: "Trace",
    run: str,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.html", help="Default: RUN with suffix .html."),
    ] = None,
) -> None:
    """One self-contained HTML page with all of it."""
    from nsys_deepprof.analyses.report_data import report_data
    from nsys_deepprof.cli.writing import default_report, write_text
    from nsys_deepprof.reports.html import render

    target = output or default_report(Path(run))
    write_text(render(report_data(trace)), target, keep=Path(run))
    typer.echo(target)


app.command()(diff)
app.command()(check)
app.command()(ranks)
app.command()(batch)
app.command()(export)
