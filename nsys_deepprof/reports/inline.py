"""A result inside a notebook: a small table with units, and what bounds it above."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from nsys_deepprof.names import shorten, visible
from nsys_deepprof.reports.cells import NAMES, WORDS, cell, heading, shown_columns
from nsys_deepprof.reports.preamble import preamble
from nsys_deepprof.reports.rows import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsys_deepprof.result import Result

SHOWN_ROWS = 20
_NAME_WIDTH = 60
_WARNING = 'style="border-left:3px solid #d55e00;padding-left:.5em;margin:.2em 0"'
_NOTE = 'style="margin:.2em 0"'


def result_html(result: Result) -> str:
    """The result as an HTML fragment: warnings and notes, then the first rows with the columns of
    the terminal's table. Hovering over a value shows it exactly.

    Starts count from the trace's start, as in every other output.
    """
    return str(
        Markup("<div>{}{}</div>").format(
            Markup("").join(_lines(result)),
            _table(result) if result.frame.height else Markup("<p>No rows.</p>"),
        )
    )


def framed(page: str, *, height_px: int) -> str:
    """A whole page as a fragment: in a frame of its own that reaches nothing outside."""
    return str(
        Markup(
            '<iframe srcdoc="{}" title="nsys-deepprof report" '
            'sandbox="allow-scripts allow-downloads" '
            'style="width:100%;height:{}px;border:1px solid #8884" loading="lazy"></iframe>'
        ).format(page, height_px)
    )


def _lines(result: Result) -> Iterator[Markup]:
    for warning in result.extra.get("warnings", ()):
        yield Markup(f"<p {_WARNING}>{{}}</p>").format(visible(str(warning)))
    for line in (*preamble(result), *result.notes):
        yield Markup(f"<p {_NOTE}>{{}}</p>").format(visible(line))


def _table(result: Result) -> Markup:
    columns = shown_columns(result)
    shown = result.frame.head(SHOWN_ROWS)
    origin_ns = result.extra.get("trace_start_ns", 0)
    count = f"{shown.height:,} of {result.frame.height:,} rows"
    return Markup(
        '<table class="dataframe"><caption style="caption-side:bottom;text-align:left">{}: {}'
        "</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
    ).format(
        result.command,
        count,
        Markup("").join(_head(name) for name in columns),
        Markup("").join(
            Markup("<tr>{}</tr>").format(
                Markup("").join(_value(name, row, origin_ns) for name in columns)
            )
            for row in shown.iter_rows(named=True)
        ),
    )


def _head(name: str) -> Markup:
    return Markup('<th scope="col" style="text-align:{};padding:0 .6em" title="{}">{}</th>').format(
        _side(name), name, heading(name)
    )


def _value(name: str, row: dict[str, Any], origin_ns: int) -> Markup:
    text = visible(cell(name, row, origin_ns))
    return Markup('<td style="text-align:{};padding:0 .6em" title="{}">{}</td>').format(
        _side(name), _exactly(row[name]), shorten(text, _NAME_WIDTH) if name in NAMES else text
    )


def _exactly(value: Any) -> str:
    if value is None:
        return "no value"
    return visible(value if isinstance(value, str) else json.dumps(plain(value)))


def _side(name: str) -> str:
    return "left" if name in NAMES | WORDS else "right"
