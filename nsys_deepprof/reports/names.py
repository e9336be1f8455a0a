"""Kernel names at a width a person reads. For display only: nothing is grouped by these."""

from __future__ import annotations

import re

_CAST = re.compile(r"\((?:unsigned )?(?:int|long|bool|short|char)\)(?=-?\d)")
_NAMESPACE = re.compile(r"(?:<unnamed>|\(anonymous namespace\)|at::native|at|c10|std|cutlass)::")


def shorten(name: str, width: int) -> str:
    """`name` in at most `width` characters: without `void`, well-known namespaces and its
    parameter list, then cut with an ellipsis."""
    if len(name) <= width:
        return name
    text = _NAMESPACE.sub("", _CAST.sub("", name.removeprefix("void ")))
    text = _without_parameters(text)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


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
