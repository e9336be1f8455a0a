"""A summary for a pull request, which is the one that a terminal shows: one screen."""

from __future__ import annotations

import re
import textwrap
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from nsys_deepprof.names import visible
from nsys_deepprof.reports.verdict import verdict
from nsys_deepprof.units import format_count, format_ns, format_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nsys_deepprof.result import Result

SHOWN_FINDINGS = 6
EXPLAINED_FINDINGS = 3
"""A screen holds the place and the advice of the first few; the report has all."""

SHOWN_GPUS = 4

_SPECIAL = re.compile(r"([\\*_<>\[\]#|`~&])")
_CODE = re.compile(r"(`[^`]*`)")


class _Style(NamedTuple):
    """How text is written: as Markdown, or for a terminal."""

    text: Callable[[str], str]
    mark: str

    def strong(self, text: str) -> str:
        return f"{self.mark}{self.text(text)}{self.mark}"


def summary(
    findings: Result,
    info: Result,
    *,
    source: str,
    limit: int | None = None,
    width: int | None = None,
) -> str:
    """The verdict, what cannot be trusted, the first findings with their advice, and each GPU.

    Markdown that reads as it stands. `limit` findings are shown, 0 for all; by default as many as
    a screen holds. `width` is for a terminal: lines are wrapped, and Markdown's
    signs in names are left as they are.
    """
    style = _Style(_escaped, "**") if width is None else _Style(str, "")
    blocks = [
        f"{style.strong(_plain(PurePath(source).name))}: {verdict(findings)}",
        *_warnings(info, style),
        *_findings(findings, style, SHOWN_FINDINGS if limit is None else limit),
        *(style.text(note) for note in findings.notes),
        *_gpus(info, style),
    ]
    if width is not None:
        blocks = [_wrapped(block, width) for block in blocks]
    return "\n\n".join(blocks) + "\n"


def _warnings(info: Result, style: _Style) -> Iterator[str]:
    warnings = info.extra["warnings"]
    if warnings:
        yield "\n".join(("What cannot be trusted:", *(f"- {style.text(w)}" for w in warnings)))


def _findings(findings: Result, style: _Style, limit: int) -> Iterator[str]:
    rows = findings.frame
    shown = rows.head(limit) if limit else rows
    if rows.height == 0:
        return
    items = [
        _finding(number, row, style) for number, row in enumerate(shown.iter_rows(named=True), 1)
    ]
    yield "\n".join(items)
    if shown.height < rows.height:
        yield f"{shown.height} of {rows.height} findings (--limit 0 shows all)."


def _finding(number: int, row: dict[str, Any], style: _Style) -> str:
    lines = [f"{number}. {style.strong(row['severity'])}: {style.text(row['title'])}"]
    if number <= EXPLAINED_FINDINGS:
        if row["where"]:
            lines.append(f"   - where: {style.text(row['where'])}")
        lines.append(f"   - do: {style.text(row['advice'])}")
    return "\n".join(lines)


def _gpus(info: Result, style: _Style) -> Iterator[str]:
    rows = info.frame
    if rows.height == 0:
        return
    lines = []
    for row in rows.head(SHOWN_GPUS).iter_rows(named=True):
        name = f" ({style.text(_plain(row['name']))})" if row["name"] else ""
        window_ns = row["window_ns"]
        states = ", ".join(
            f"{words} {format_share(row[f'{state}_ns'] / window_ns if window_ns else None)}"
            for state, words in (
                ("compute", "compute"),
                ("comm", "communication"),
                ("copy", "exposed copy"),
                ("memset", "memset"),
                ("idle", "idle"),
            )
            if row[f"{state}_ns"]
        )
        lines.append(
            f"- GPU {row['gpu']}{name}: {states} of {format_ns(window_ns)}; "
            f"{format_count(row['kernels'])} kernels, {format_count(row['memcpys'])} copies"
        )
    if rows.height > SHOWN_GPUS:
        lines.append(f"- {rows.height - SHOWN_GPUS} more GPUs: see `info`")
    yield "\n".join(lines)


MAX_NAME = 200


def _plain(name: str) -> str:
    """A name that is no code: backticks of its own would make code of what is around it."""
    return visible(name, MAX_NAME).replace("`", "'")


def _escaped(text: str) -> str:
    """Markdown's own signs spelt out, but for what stands between backticks."""
    # Backticks that do not pair are a name's.
    parts = [text] if text.count("`") % 2 else _CODE.split(text)
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def _wrapped(block: str, width: int) -> str:
    lines: list[str] = []
    for line in block.splitlines():
        content = line.lstrip()
        marker = re.match(r"(?:\d+\.|-) ", content)
        indent = " " * (len(line) - len(content) + (len(marker[0]) if marker else 0))
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)
