"""Rows for people: a table that fits a terminal, with units, and what cannot be trusted on top."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

from nsys_deepprof.names import shorten
from nsys_deepprof.reports.cells import NAMES, WORDS, cell, heading, printable, shown_columns
from nsys_deepprof.reports.preamble import preamble

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from nsys_deepprof.result import Result

_FIRST_TO_GO = (
    *("nvtx", "variant", "max_ns", "median_ns", "drained_by", "iteration", "pid", "memset_ns"),
    *("src_kind", "dst_kind", "memcpys", "prev_op", "throughput_gbps", "kernels", "comm_ns"),
    *("calls", "api_ns", "queue_max_ns", "run_median_ns", "unqueued_share", "p95_ns", "depth"),
    *("exposed_ns", "a_calls", "b_calls"),
)
"""Columns that a narrow terminal does without, in the order in which they go."""
_FILE_WIDTH = 180
_MIN_NAME_WIDTH = 12
_SPACE = 2


def render(result: Result, source: str, *, limit: int, width: int | None) -> str:
    """The result as text. `limit` rows at most (0: all); `width` in columns, None for a file."""
    from rich.console import Console
    from rich.text import Text

    frame = result.frame
    shown = frame.head(limit) if limit else frame
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width or _FILE_WIDTH, highlight=False, markup=False, emoji=False
    )
    warnings = [f"! {warning}" for warning in result.extra.get("warnings", ())]
    for line in (f"{result.command}: {source}", *warnings, *preamble(result), *result.notes):
        console.print(Text(printable(line)))
    if shown.height:
        console.print(_table(result, shown, console.width))
    if shown.height < frame.height:
        console.print(Text(f"{shown.height:,} of {frame.height:,} rows (--limit 0 shows all)"))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _table(result: Result, shown: pl.DataFrame, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    origin_ns = result.extra.get("trace_start_ns", 0)
    rows = list(shown.iter_rows(named=True))
    cells = {
        name: [printable(cell(name, row, origin_ns)) for row in rows]
        for name in shown_columns(result)
    }
    empty = [name for name in cells if shown[name].null_count() == shown.height]
    widths = _widths(cells, empty, width)
    table = Table(box=None, padding=(0, _SPACE, 0, 0), show_edge=False, header_style="")
    for name, column_width in widths.items():
        justify: Literal["left", "right"] = "left" if name in NAMES | WORDS else "right"
        table.add_column(
            heading(name), justify=justify, no_wrap=True, overflow="ellipsis", width=column_width
        )
    for index in range(shown.height):
        texts = (
            shorten(cells[name][index], w) if name in NAMES else cells[name][index]
            for name, w in widths.items()
        )
        table.add_row(*(Text(text) for text in texts))
    return table


def _widths(cells: dict[str, list[str]], empty: list[str], width: int) -> dict[str, int]:
    """Widths of the columns that fit. Names share what the others leave; no number is ever cut: a
    narrow terminal does without columns, the empty ones first and then the last ones."""
    full = {name: max(len(heading(name)), *map(len, texts)) for name, texts in cells.items()}
    for name in (*empty, *_FIRST_TO_GO, *reversed(list(cells)[1:])):
        least = sum(min(w, _MIN_NAME_WIDTH) if n in NAMES else w for n, w in full.items())
        if least + _SPACE * len(full) <= width:
            break
        full.pop(name, None)
    long = sorted((name for name in full if name in NAMES), key=lambda name: full[name])
    left = width - sum(full.values()) + sum(full[name] for name in long) - _SPACE * len(full)
    for position, name in enumerate(long):
        share = max(left // (len(long) - position), _MIN_NAME_WIDTH)
        full[name] = min(full[name], share)
        left -= full[name]
    return full
