"""`ranks`: the files of one job side by side."""

# Annotations are live objects here: Typer reads them, so they are not postponed.
from typing import TYPE_CHECKING

from nsys_deepprof.cli.commands import HtmlOption, together

if TYPE_CHECKING:
    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace


@together
def ranks(runs: list["Trace"], html: HtmlOption = None) -> "Result":
    """The ranks of one job: the slowest per iteration, and where."""
    from nsys_deepprof.analyses.ranks import ranks as analyse

    result = analyse(runs)
    if html is not None:
        from nsys_deepprof.cli.writing import write_page
        from nsys_deepprof.reports.ranks_html import render

        write_page(render, result, runs, html)
    return result
