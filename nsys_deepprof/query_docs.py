"""`sql/README.md`, made from the headers of the SQL files so that it cannot disagree with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsys_deepprof.queries import load_query, query_names

if TYPE_CHECKING:
    from nsys_deepprof.queries import Query

_INTRODUCTION = """\
# The queries

One file is one SELECT over one table of an nsys export. Its header says what a row is, which
columns it needs (`requires`), which may be absent and are then NULL (`optional`), what happens
when a required column is absent (`unreadable`: `error` stops, `skip` goes on without the table and
says so), and what cannot be computed without the table. Frames take their types from the header.

Types: INT64 and INT32 are integers; TEXT is text; STRING_ID is an id in StringIds, which becomes
the text itself; CODE(name) is a number that becomes a word (see `nsys_deepprof/codes.py`).

This page is generated from the headers. After a change to a file:

    python -c "from nsys_deepprof.query_docs import markdown; print(markdown(), end='')" \\
        > sql/README.md
"""


def markdown() -> str:
    """The whole page."""
    sections = [_section(load_query(name)) for name in query_names()]
    return "\n".join([_INTRODUCTION, *sections])


def _section(query: Query) -> str:
    rows = "\n".join(
        f"| `{c.name}` | {c.type if c.code is None else f'CODE({c.code})'} | {c.meaning} |"
        for c in query.columns
    )
    optional = f"\nOptional: {', '.join(query.optional)}.\n" if query.optional else ""
    return f"""\
## {query.name}

{query.about}

Reads `{query.table}`; requires {", ".join(query.required)}; unreadable: {query.unreadable}.
{optional}
Without it {query.without}.

| column | type | meaning |
|---|---|---|
{rows}
"""
