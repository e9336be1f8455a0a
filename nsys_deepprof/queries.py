"""The SQL files: their headers, parsed and held against their SELECTs.

A file holds one SELECT. Its header says what one row is, which tables and columns it needs
(`requires`), which may be absent (`optional`), what to do when a required column is absent
(`unreadable`), what cannot be computed without the table (`without it`), and, column by column,
name, type and meaning. Frames take their types from the header, never from the data. TEXT is
selected as bytes (`CAST(... AS BLOB)`): a file may hold bytes that are not UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

_PACKAGED = Path(__file__).parent / "sql"
# An editable install and a checkout read the files where they are edited.
SQL_DIRECTORY = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parent.parent / "sql"

_TABLE = re.compile(r"^(\w+)\(([\w, ]+)\)$")
_COLUMN = re.compile(r"^(\w+) (INT64|INT32|TEXT|STRING_ID|CODE\((\w+)\)) (\S.*)$")
_SELECTED = re.compile(r"\bAS (\w+),?$", re.MULTILINE)
_FIELDS = {"requires", "optional", "unreadable", "without it", "column"}


@dataclass(frozen=True)
class Column:
    """One column of a query: `type` is INT64, INT32, TEXT, STRING_ID or CODE; `code` names the
    table of codes when type is CODE."""

    name: str
    type: str
    code: str | None
    meaning: str


@dataclass(frozen=True)
class Query:
    """One SQL file: the SELECT and what its header promises."""

    name: str
    about: str
    table: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    unreadable: Literal["error", "skip"]
    without: str
    columns: tuple[Column, ...]
    sql: str


def query_names() -> list[str]:
    """Names of all queries, sorted."""
    return sorted(path.stem for path in SQL_DIRECTORY.glob("*.sql"))


@cache
def known_tables() -> tuple[str, ...]:
    """Names of all nsys tables that some query reads, sorted."""
    return tuple(sorted({load_query(name).table for name in query_names()}))


@cache
def load_query(name: str) -> Query:
    """The query in `sql/NAME.sql`.

    Raises ValueError where the header is incomplete or does not match the SELECT: a fault of this
    package, found by its tests.
    """
    return parse_query(name, (SQL_DIRECTORY / f"{name}.sql").read_text(encoding="utf-8"))


def parse_query(name: str, text: str) -> Query:
    """Parse one SQL file; see `load_query`."""
    header = [line[3:] for line in text.splitlines() if line.startswith("-- ")]
    sql = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
    about: list[str] = []
    fields: dict[str, list[str]] = {field: [] for field in _FIELDS}
    for line in header:
        key, separator, value = line.partition(": ")
        if separator and key in _FIELDS:
            fields[key].append(value.strip())
        else:
            about.append(line)
    whole = about and len(fields["requires"]) == 1
    if not whole or fields["unreadable"] not in (["error"], ["skip"]):
        raise ValueError(f"{name}.sql: header lacks its description, requires or unreadable")
    if len(fields["without it"]) != 1:
        raise ValueError(f"{name}.sql: header does not say what is lost without the table")
    table, required = _table(name, fields["requires"][0])
    optional: tuple[str, ...] = ()
    if fields["optional"]:
        optional_table, optional = _table(name, fields["optional"][0])
        if optional_table != table:
            raise ValueError(f"{name}.sql: one file reads one table")
    columns = tuple(_column(name, line) for line in fields["column"])
    selected = tuple(_SELECTED.findall(sql))
    if selected != tuple(column.name for column in columns):
        raise ValueError(f"{name}.sql: the header's columns are not those of the SELECT")
    return Query(
        name=name,
        about=" ".join(about),
        table=table,
        required=required,
        optional=optional,
        unreadable="error" if fields["unreadable"] == ["error"] else "skip",
        without=fields["without it"][0],
        columns=columns,
        sql=sql,
    )


def _table(name: str, text: str) -> tuple[str, tuple[str, ...]]:
    match = _TABLE.match(text)
    if match is None:
        raise ValueError(f"{name}.sql: not TABLE(column, ...): {text}")
    return match[1], tuple(part.strip() for part in match[2].split(","))


def _column(name: str, text: str) -> Column:
    match = _COLUMN.match(text)
    if match is None:
        raise ValueError(f"{name}.sql: not NAME TYPE MEANING: {text}")
    return Column(match[1], "CODE" if match[3] else match[2], match[3], match[4])
