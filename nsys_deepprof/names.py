"""Names from a trace as text that a person reads: they may be long, and hostile.

For display and its order only: nothing is grouped by these.
"""

from __future__ import annotations

import re

MAX_NAME = 1_000
"""Characters of a name that a page keeps: almost every name whole, and a bound for its size."""

# Control characters, and those that turn the direction of the text after them.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_CAST = re.compile(r"\((?:unsigned )?(?:int|long|bool|short|char)\)(?=-?\d)")
_NAMESPACE = re.compile(r"(?:<unnamed>|\(anonymous namespace\)|at::native|at|c10|std|cutlass)::")


def visible(name: str, limit: int = MAX_NAME) -> str:
    """`name` with invisible characters spelt out (`⟨U+202E⟩`), and without its middle where it
    is longer than `limit`."""
    shown = _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", name)
    if len(shown) <= limit:
        return shown
    tail = limit // 4
    return f"{shown[: limit - tail - 1]}…{shown[-tail:]}"


def shorten(name: str, width: int) -> str:
    """`name` in at most `width` characters: without `void`, well-known namespaces and its
    parameter list, then cut with an ellipsis."""
    if len(name) <= width:
        return name
    text = _NAMESPACE.sub("", _CAST.sub("", name.removeprefix("void ")))
    text = _without_parameters(text)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def by_number(text: str) -> list[str | int]:
    """A key to sort by in which numbers count by their value: `rank2` comes before `rank10`."""
    # Every second piece is a number, so that only like is compared with like.
    return [int(t) if i % 2 else t for i, t in enumerate(re.split(r"(\d+)", text))]


def _without_parameters(text: str) -> str:
    """Drop a trailing `(...)` that is balanced and follows a name or its template arguments."""
    if not text.endswith(")"):
        return text
    depth = 0
    for index in range(len(text) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if depth == 0:
            return text[:index]
    return text
