"""`ranks`: the files of one job side by side."""

# Annotations are live objects here: Typer reads them, so they are not postponed.
from typing import TYPE_CHECKING

from nsys_deepprof.cli.commands import together

if TYPE_CHECKING:
    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace


@together
def ranks(runs: list["Trace"]) -> "Result":
    """The ranks of one job: the slowest per iteration, and where."""
    from nsys_deepprof.analyses.ranks import ranks as analyse

    return analyse(runs)
