"""`diff` and `check`: answers that a CI job can fail on."""

# Annotations are live objects here: Typer reads them, so they are not postponed.
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsys_deepprof.cli.commands import HtmlOption, comparison, table

if TYPE_CHECKING:
    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace


def _share(text: str) -> float:
    """A share from `3%` or `0.03`."""
    number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= number < float("inf"):
        raise typer.BadParameter(f"{text} is not a share of 0 or more")
    return number


@comparison
def diff(
    a: "Trace",
    b: "Trace",
    fail_on: Annotated[
        float | None,
        typer.Option(
            "--fail-on",
            metavar="SHARE",
            parser=_share,
            help="End with status 1 if B is slower by this share (3% or 0.03), or if that cannot "
            "be told.",
            show_default=False,
        ),
    ] = None,
    html: HtmlOption = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Of the resampling behind the interval.")
    ] = 0,
) -> "Result":
    """What changed from run A to run B, for the same work."""
    from nsys_deepprof.analyses.diff import diff as analyse
    from nsys_deepprof.analyses.diff import exceeds

    result = analyse(a, b, seed=seed)
    if fail_on is not None:
        failure = exceeds(result, fail_on)
        gate = {"fail_on": fail_on, "passed": failure is None, "failure": failure}
        told = "passed" if failure is None else f"FAILED: {failure}"
        result = replace(
            result,
            extra=result.extra | gate,
            notes=(*result.notes, f"Gate of {100 * fail_on:g} %: {told}."),
        )
    if html is not None:
        from nsys_deepprof.cli.writing import write_page
        from nsys_deepprof.reports.diff_html import render

        write_page(render, result, [a, b], html)
    return result


@table
def check(
    trace: "Trace",
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="'METRIC OP NUMBER'",
            help="For example 'idle_share<0.1'; repeatable. A wrong METRIC lists those there are.",
            show_default=False,
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            "--rules",
            metavar="FILE.toml",
            help="A file with rules = ['idle_share<0.1', ...], or a table of names and rules.",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit", metavar="FILE.xml", help="Also write a JUnit file.", show_default=False
        ),
    ] = None,
) -> "Result":
    """Rules over figures of a run; status 1 when one fails."""
    from nsys_deepprof.checking import check as analyse
    from nsys_deepprof.checking import parse_rule, read_rules

    every = [*(read_rules(rules) if rules else []), *(parse_rule(text) for text in rule or [])]
    result = analyse(trace, every)
    if junit is not None:
        from nsys_deepprof.cli.writing import write_text
        from nsys_deepprof.reports.junit import to_junit

        write_text(to_junit(result, trace.source), junit, keep=Path(trace.source))
    return result
