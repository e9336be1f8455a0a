"""Findings for people: a numbered list of sentences, because a table would cut them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from nsys_deepprof.units import format_ns, format_share

if TYPE_CHECKING:
    import polars as pl

_MAX_WIDTH = 110
"""Longer lines are hard to read, however wide the terminal is."""


def finding_lines(findings: pl.DataFrame, width: int) -> list[str]:
    """Each finding as its title, what it can give back, where it is, and what to do."""
    lines: list[str] = []
    for number, row in enumerate(findings.iter_rows(named=True), start=1):
        lines += ["", *_wrapped(f"{number}. {row['title']}", width, "   ")]
        for label, text in (("gain", _gain(row)), ("where", row["where"]), ("do", row["advice"])):
            lines += _wrapped(f"   {label:<6}{text}", width, " " * 9)
    return lines


def _gain(row: dict[str, Any]) -> str:
    if row["recoverable_ns"] is None:
        return f"{row['severity']}; not idle time: what overlapping gives back is not known"
    most = f"{format_ns(row['recoverable_ns'])} ({format_share(row['recoverable_share'])})"
    return f"{row['severity']}; at most {most}"


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=min(width, _MAX_WIDTH),
        subsequent_indent=indent,
        break_long_words=True,
        break_on_hyphens=False,
    )
