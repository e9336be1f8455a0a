"""Progress on standard error, only on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def conversion_progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A callback for `convert`: the table being read, how many rows are done, of about how many."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    rows = TextColumn("{task.completed:,} of {task.total:,} rows,")
    columns = (TextColumn("{task.description}"), BarColumn(), rows, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading", total=0)

        def update(table: str, done: int, of: int) -> None:
            bars.update(task, description=f"reading {table}", completed=done, total=of)

        yield update
