"""What RUN is, and reading it without trusting or touching it.

An export is a stranger's file. It is opened read-only and immutable (so SQLite writes no side
file), with `trusted_schema` off; only real tables are read, never a view or a virtual table under
a table's name. A missing optional column is filled by a temporary view of the table's own name,
so that one static SQL text serves every nsys version.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import struct
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nsys_deepprof.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from nsys_deepprof.queries import Query

_SQLITE_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_BATCH_ROWS = 65_536
_EXPORT_HINT = "export it first: nsys export --type sqlite FILE.nsys-rep"


@dataclass(frozen=True)
class SqliteSource:
    """A checked SQLite export. Make it with `open_sqlite`."""

    path: Path

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Column names of every real table, by table name."""
        try:
            with closing(sqlite3.connect(_uri(self.path), uri=True)) as connection:
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.text_factory = _text
                return _real_tables(connection)
        except sqlite3.Error as error:
            raise _unreadable(self.path, error) from error

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Rows of `query` as Arrow batches, in stored order.

        The caller has made sure that the table and its required columns exist.
        Raises InputError when the file is corrupt.
        """
        import adbc_driver_sqlite.dbapi as adbc

        have = self.tables[query.table]
        missing = [column for column in query.optional if column not in have]
        try:
            with adbc.connect(_uri(self.path)) as connection, connection.cursor() as cursor:
                cursor.execute("PRAGMA trusted_schema = OFF")
                if missing:
                    cursor.execute(_completing_view(query.table, missing))
                cursor.adbc_statement.set_options(
                    **{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)}
                )
                cursor.execute(query.sql)
                yield from cursor.fetch_record_batch()
        except (adbc.Error, OSError) as error:
            raise _unreadable(self.path, error) from error


def open_sqlite(path: Path) -> SqliteSource:
    """Check that `path` is a whole SQLite file and wrap it.

    The checks read the first 100 bytes and the file's size: a scan of a large file is too slow.
    Raises InputError with what is wrong and what to do.
    """
    size_bytes = _check_file(path)
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError as error:
        raise InputError(path, _reason(error)) from error
    _check_header(path, header, size_bytes)
    for suffix, what in (("-wal", "write-ahead log"), ("-journal", "rollback journal")):
        side = path.with_name(path.name + suffix)
        if side.exists() and side.stat().st_size > 0:
            raise InputError(
                path,
                f"has an unfinished {what} beside it ({side.name}), so its rows may be incomplete",
                "let the program that writes it finish, or open and close it once with sqlite3",
            )
    source = SqliteSource(path)
    if not source.tables:
        raise InputError(path, "SQLite file without any table", _EXPORT_HINT)
    return source


def fingerprint(path: Path) -> str:
    """Digest of the file's whole content (BLAKE2b, 128 bits, hexadecimal)."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    except OSError as error:
        raise InputError(path, _reason(error)) from error
    return digest.hexdigest()


def _check_file(path: Path) -> int:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(path, _reason(error), "check the path") from error
    except ValueError as error:
        raise InputError(path, "not a usable path", "check the path") from error
    if stat.S_ISDIR(status.st_mode):
        raise InputError(path, "a directory, and not a converted dataset", "name the export itself")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(path, "not a regular file", "copy the export to a file first")
    if not os.access(path, os.R_OK):
        raise InputError(path, "no permission to read it", "check the file's mode")
    return status.st_size


def _check_header(path: Path, header: bytes, size_bytes: int) -> None:
    if size_bytes == 0:
        raise InputError(path, "empty file", "export the capture again")
    if not header.startswith(_SQLITE_MAGIC):
        if path.suffix in (".nsys-rep", ".qdrep"):
            raise InputError(path, "an nsys report, not its SQLite export", _EXPORT_HINT)
        what = "header is zeroed: damaged" if not header.strip(b"\0") else "not an SQLite file"
        raise InputError(path, what, _EXPORT_HINT)
    if len(header) < _HEADER_BYTES:
        raise InputError(path, "truncated within its header", "copy or export it again")
    page_bytes = struct.unpack(">H", header[16:18])[0]
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    if page_bytes < 512 or page_bytes & (page_bytes - 1):
        raise InputError(path, "damaged SQLite header (page size)", "copy or export it again")
    pages = struct.unpack(">I", header[28:32])[0]
    # The page count holds only when the two change counters agree (SQLite file format, 1.3.7).
    counts_hold = header[24:28] == header[92:96] and pages > 0
    if counts_hold and size_bytes < pages * page_bytes:
        raise InputError(
            path,
            f"truncated: {size_bytes:,} of {pages * page_bytes:,} bytes",
            "copy or export it again",
        )


def _uri(path: Path) -> str:
    return f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _real_tables(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    from sqlite_utils import Database

    names = connection.execute(
        "SELECT name FROM sqlite_master"
        " WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    database: Any = Database(connection)
    return {name: tuple(c.name for c in database[name].columns) for (name,) in names}


def _completing_view(table: str, missing: list[str]) -> str:
    # Both come from the SQL headers of this package, never from the file.
    nulls = ", ".join(f'NULL AS "{column}"' for column in missing)
    return f'CREATE TEMP VIEW "{table}" AS SELECT *, {nulls} FROM main."{table}"'


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return (error.strerror or str(error)).lower()


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(path, f"cannot be read: {error}", "copy or export it again")
