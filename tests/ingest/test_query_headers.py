"""Every file of `sql/` against its own header."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest

from nsys_deepprof.queries import Query, known_tables, load_query, parse_query, query_names

QUERIES = [load_query(name) for name in query_names()]


def table_of(query: Query, columns: tuple[str, ...]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    listed = ", ".join(f'"{column}"' for column in columns)
    connection.execute(f"CREATE TABLE {query.table} ({listed})")
    return connection


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
def test_the_select_gives_the_columns_of_the_header_in_order(query: Query) -> None:
    with closing(table_of(query, query.required + query.optional)) as connection:
        cursor = connection.execute(query.sql)
    assert [entry[0] for entry in cursor.description] == [c.name for c in query.columns]


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
def test_the_select_needs_every_column_that_the_header_lists(query: Query) -> None:
    listed = query.required + query.optional
    for absent in listed:
        rest = tuple(c for c in listed if c != absent) or ("other",)
        # SQLite takes an unknown name in double quotes for a text, so look for the name as well.
        assert re.search(rf"\b{absent}\b", query.sql), absent
        if f'"{absent}"' not in query.sql:
            with closing(table_of(query, rest)) as connection, pytest.raises(sqlite3.Error):
                connection.execute(query.sql)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
def test_text_is_selected_as_bytes_and_numbers_are_not(query: Query) -> None:
    columns = query.required + query.optional
    with closing(table_of(query, columns)) as connection:
        connection.execute(f"INSERT INTO {query.table} VALUES ({', '.join('59' for _ in columns)})")
        row = connection.execute(query.sql).fetchone()
    for column, value in zip(query.columns, row, strict=True):
        assert isinstance(value, bytes) == (column.type == "TEXT"), column.name


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
def test_a_query_neither_sorts_nor_aggregates_nor_selects_everything(query: Query) -> None:
    assert not re.search(r"\*|\b(ORDER|GROUP|JOIN|DISTINCT|LIMIT)\b", query.sql)


def test_known_tables_are_those_of_the_queries() -> None:
    assert set(known_tables()) == {query.table for query in QUERIES}


GOOD = """-- One row per thing.
-- requires: T(a)
-- unreadable: skip
-- without it: things are unknown
-- column: a INT64 a thing
SELECT
    x AS a
FROM T
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("-- One row per thing.\n", "", "description"),
        ("-- requires: T(a)\n", "", "requires"),
        ("-- unreadable: skip", "-- unreadable: maybe", "unreadable"),
        ("-- without it: things are unknown\n", "", "lost"),
        ("INT64", "FLOAT", "NAME TYPE MEANING"),
        ("INT64 a thing", "INT64", "NAME TYPE MEANING"),
        ("T(a)", "T", "TABLE"),
        ("x AS a", "x AS b", "columns"),
        ("x AS a", "x AS a,\n    y AS b", "columns"),
        ("-- unreadable", "-- optional: U(b)\n-- unreadable", "one table"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(old: str, new: str, complaint: str) -> None:
    assert [c.name for c in parse_query("good", GOOD).columns] == ["a"]
    with pytest.raises(ValueError, match=complaint):
        parse_query("bad", GOOD.replace(old, new))
