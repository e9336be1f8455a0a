"""An nsys SQLite export, read without trusting or touching it.

The file comes from a stranger. It is opened read-only and immutable (so SQLite writes no side
file), with `trusted_schema` off; only real tables are read, never a view or a virtual table under
a table's name, nor a table with computed columns. What a query reads is a temporary view of the
table's own name, which holds one range of rows and fills columns that this export lacks: one
static SQL text serves every nsys version and every reader.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.errors import InputError
from nsys_deepprof.queries import known_tables
from nsys_deepprof.sources import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nsys_deepprof.queries import Query

    Range = tuple[int, int] | None

PART_ROWS = 1 << 18
"""Rows that one reader takes at a time: enough to be quick, few enough to hold several."""

NOT_AN_INTEGER = -(1 << 63)
"""Stands for a value that is no integer, where an integer should be."""

_BATCH_ROWS = 1 << 14
_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_SMALLEST_ROW_BYTES = 4
_LONGEST_VALUE_BYTES = 1 << 27
_EXPORT_HINT = "export it first: nsys export --type sqlite FILE.nsys-rep"
_AGAIN_HINT = "copy or export it again"
# A damaged schema can put bytes that are not UTF-8 even into SQLite's own messages.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeError, OverflowError)


@dataclass(frozen=True)
class SqliteSource:
    """A checked SQLite export. Make it with `open_sqlite`.

    `path` is read; `named` is what messages call it; `content` is the file whose bytes identify
    it: another one where the export was unpacked.
    """

    path: Path
    named: str
    content: Path
    status: files.Status

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Column names of the nsys tables that the file has, by table name."""
        with self._connection() as connection:
            return _nsys_tables(self.named, connection)

    def identity(self) -> files.Identity:
        """Name, size and digest of what the user named. Reads all of it."""
        return files.identity(self.content)

    def check_unchanged(self) -> None:
        """InputError where the file has changed since it was opened."""
        files.check_unchanged(self.path, self.status)

    def rows_at_most(self, table: str) -> int:
        """A bound of the rows of `table`, without reading them; near the truth for real exports."""
        with self._connection() as connection:
            span = _rowid_span(connection, table, self.tables[table])
        most = self.status.size // _SMALLEST_ROW_BYTES
        return most if span is None else min(span[1] - span[0] + 1, most)

    def parts(self, query: Query) -> list[Callable[[], list[pl.DataFrame]]]:
        """Readers of `query`, one for each range of rows, in stored order.

        Each gives raw frames, and can run beside the others. The caller has made sure that the
        table and its required columns exist. A reader raises InputError where the file is corrupt
        or has changed.
        """
        with self._connection() as connection:
            ranges = _ranges(connection, query.table, self.tables[query.table], self.status.size)
            return [partial(self._read, query, part) for part in ranges]

    def _read(self, query: Query, rows: Range) -> list[pl.DataFrame]:
        try:
            return list(self._batches(query, rows, query.sql))
        except _MixedTypesError:
            return list(self._batches(query, rows, _integers_only(query)))

    def _batches(self, query: Query, rows: Range, sql: str) -> Iterator[pl.DataFrame]:
        # Not through `dbapi`, which imports all of pyarrow: that takes longer than a small file.
        import adbc_driver_manager as adbc
        import adbc_driver_sqlite
        import pyarrow as pa

        most = self.status.size // _SMALLEST_ROW_BYTES
        if rows is not None:
            most = min(most, rows[1] - rows[0] + 1)
        try:
            with (
                adbc_driver_sqlite.connect(_uri(self.path)) as database,
                adbc.AdbcConnection(database) as connection,
                adbc.AdbcStatement(connection) as statement,
            ):
                for preparation in (
                    "PRAGMA trusted_schema = OFF",
                    _view(query, self.tables[query.table], rows),
                ):
                    statement.set_sql_query(preparation)
                    statement.execute_update()
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
                statement.set_sql_query(sql)
                stream, _ = statement.execute_query()
                for batch in pa.RecordBatchReader.from_stream(stream):
                    most -= batch.num_rows
                    if most < 0:
                        # Pages that are shared between branches can make rows without end.
                        raise _damaged(self.named, "a table has more rows than fit in the file")
                    frame = pl.DataFrame(pl.from_arrow(batch))
                    if not _types_hold(frame, query):
                        raise _MixedTypesError
                    yield frame
        except (adbc.Error, OSError, UnicodeError) as error:
            self.check_unchanged()
            if "Type mismatch" in str(error):
                raise _MixedTypesError from error
            raise _damaged(self.named, error) from error
        self.check_unchanged()

    def _connection(self) -> closing[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(_uri(self.path), uri=True, check_same_thread=False)
        except _SQLITE_ERRORS as error:
            raise _damaged(self.named, error) from error
        return closing(connection)


class _MixedTypesError(Exception):
    """Rows whose types are not those of the rows before them: read them again, with care."""


def open_sqlite(
    path: Path, *, named: str | None = None, content: Path | None = None
) -> SqliteSource:
    """Check that `path` is a whole SQLite file of nsys tables and wrap it.

    `named` and `content` say what it was unpacked from. The checks read the first 100 bytes, the
    size and the schema: a scan of a large file is too slow. Raises InputError with what is wrong
    and what to do.
    """
    named = named or str(path)
    status = files.check_file(path)
    _check_header(named, files.first_bytes(path, _HEADER_BYTES), status.size)
    for suffix, what in (("-wal", "write-ahead log"), ("-journal", "rollback journal")):
        side = path.with_name(path.name + suffix)
        if os.path.exists(side) and side.stat().st_size > 0:
            raise InputError(
                named,
                f"has an unfinished {what} beside it ({side.name}), so its rows may be incomplete",
                "let the program that writes it finish, or open and close it once with sqlite3",
            )
    source = SqliteSource(path, named, content or path, status)
    if not source.tables:
        raise InputError(named, "an SQLite file, but without any nsys table", _EXPORT_HINT)
    return source


def _check_header(named: str, header: bytes, size_bytes: int) -> None:
    if size_bytes == 0:
        raise InputError(named, "empty file", "export the capture again")
    if not header.startswith(_MAGIC):
        if named.endswith((".nsys-rep", ".qdrep")):
            raise InputError(named, "an nsys report, not its SQLite export", _EXPORT_HINT)
        what = "header is zeroed: damaged" if not header.strip(b"\0") else "not an SQLite file"
        raise InputError(named, what, _EXPORT_HINT)
    if len(header) < _HEADER_BYTES:
        raise InputError(named, "truncated within its header", _AGAIN_HINT)
    page_bytes = struct.unpack(">H", header[16:18])[0]
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    if page_bytes < 512 or page_bytes & (page_bytes - 1):
        raise InputError(named, "damaged SQLite header (page size)", _AGAIN_HINT)
    pages = struct.unpack(">I", header[28:32])[0]
    # The page count holds only when the two change counters agree (SQLite file format, 1.3.7).
    counts_hold = header[24:28] == header[92:96] and pages > 0
    if counts_hold and size_bytes < pages * page_bytes:
        raise InputError(
            named, f"truncated: {size_bytes:,} of {pages * page_bytes:,} bytes", _AGAIN_HINT
        )


def _uri(path: Path) -> str:
    from urllib.parse import quote

    return f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"


def _nsys_tables(named: str, connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    known = {table.lower(): table for table in known_tables()}
    found: dict[str, tuple[str, ...]] = {}
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF")
        encoding = connection.execute("PRAGMA encoding").fetchone()[0]
        entries = connection.execute("SELECT type, name, rootpage FROM sqlite_schema").fetchall()
        for kind, name, root_page in entries:
            table = known.get(str(name).lower())
            if table is None or kind not in ("table", "view"):
                continue
            columns = connection.execute(
                "SELECT name, hidden FROM pragma_table_xinfo(?)", (table,)
            ).fetchall()
            # Views and virtual tables have no page of their own; computed columns are "hidden".
            if kind == "view" or not root_page or any(hidden for _, hidden in columns):
                raise InputError(
                    named, f"{table} is computed, not a stored table: not an nsys export", ""
                )
            found[table] = tuple(column for column, _ in columns)
    except _SQLITE_ERRORS as error:
        raise _damaged(named, error) from error
    if found and encoding != "UTF-8":
        raise InputError(named, f"text is in {encoding}, not UTF-8: not an nsys export", "")
    return found


def _rowid_name(columns: tuple[str, ...]) -> str | None:
    """A name under which the row number can be read; None where columns hide all of them."""
    taken = {column.lower() for column in columns}
    return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)


def _rowid_span(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...]
) -> tuple[int, int] | None:
    """First and last row number; (0, -1) for an empty table, None where rows have no number."""
    name = _rowid_name(columns)
    if name is None:
        return None
    try:
        # Two queries: SQLite looks up one end of the tree at once, but scans for both together.
        first, last = (
            connection.execute(f'SELECT {end}({name}) FROM main."{table}"').fetchone()[0]
            for end in ("min", "max")
        )
    except _SQLITE_ERRORS:
        return None
    return (0, -1) if first is None else (first, last)


def _ranges(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...], size_bytes: int
) -> list[Range]:
    span = _rowid_span(connection, table, columns)
    if span is None:
        return [None]
    first, last = span
    if last - first < size_bytes // _SMALLEST_ROW_BYTES:
        return [(a, min(a + PART_ROWS - 1, last)) for a in range(first, last + 1, PART_ROWS)]
    # More numbers than rows fit in the file: most of them are not in use. Count rows instead.
    name = _rowid_name(columns)
    ranges: list[Range] = []
    while first <= last and len(ranges) <= size_bytes // PART_ROWS + 1:
        try:
            end = connection.execute(
                f'SELECT max(n) FROM (SELECT {name} AS n FROM main."{table}" NOT INDEXED'
                f" WHERE {name} >= ? ORDER BY {name} LIMIT {PART_ROWS})",
                (first,),
            ).fetchone()[0]
        except _SQLITE_ERRORS:
            return [None]
        if end is None or end < first:
            break
        ranges.append((first, end))
        first = end + 1
    return ranges


def _view(query: Query, have: tuple[str, ...], rows: Range) -> str:
    # Names come from the SQL headers of this package, never from the file.
    columns = ", ".join(
        f'"{column}"' if column in have else f'NULL AS "{column}"'
        for column in (*query.required, *query.optional)
    )
    name = _rowid_name(have)
    where = "" if rows is None else f" WHERE {name} BETWEEN {rows[0]} AND {rows[1]}"
    # A stranger's index may be damaged where the table is not.
    table = f'main."{query.table}" NOT INDEXED'
    return f'CREATE TEMP VIEW "{query.table}" AS SELECT {columns} FROM {table}{where}'


def _types_hold(frame: pl.DataFrame, query: Query) -> bool:
    wanted = (pl.Binary if column.type == "TEXT" else pl.Int64 for column in query.columns)
    return all(have == want for have, want in zip(frame.dtypes, wanted, strict=True))


def _integers_only(query: Query) -> str:
    """The query with whole numbers kept, and `NOT_AN_INTEGER` for other values that are not null.

    Slower: only for rows that mix types.
    """
    columns = ", ".join(
        column.name
        if column.type == "TEXT"
        else f"CASE WHEN typeof({column.name}) IN ('integer', 'null') THEN {column.name}"
        f" WHEN {column.name} = CAST({column.name} AS INTEGER)"
        f" AND typeof({column.name}) = 'real' THEN CAST({column.name} AS INTEGER)"
        f" ELSE -9223372036854775808 END AS {column.name}"
        for column in query.columns
    )
    return f"SELECT {columns} FROM ({query.sql})"


def _damaged(named: str, error: object) -> InputError:
    return InputError(named, f"cannot be read: {error}", _AGAIN_HINT)
