"""A directory of `nsys export --type parquetdir`: one Parquet file a table, the same columns.

The SQL files run over it as they are, in Polars instead of SQLite.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.errors import InputError
from nsys_deepprof.queries import known_tables
from nsys_deepprof.sources import files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nsys_deepprof.queries import Query

PART_ROWS = 1 << 18
_AGAIN_HINT = "copy or export it again"


@dataclass(frozen=True)
class ParquetDirSource:
    """A checked parquetdir export. Make it with `open_parquetdir`."""

    path: Path
    statuses: dict[str, files.Status]

    @property
    def named(self) -> str:
        """What messages call it."""
        return str(self.path)

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Column names of the nsys tables that the directory has, by table name."""
        return {table: tuple(self._schema(table)) for table in self.statuses}

    def identity(self) -> files.Identity:
        """Name, size and a digest over the files of all nsys tables. Reads all of them."""
        each = {table: files.identity(self._file(table)) for table in sorted(self.statuses)}
        whole = hashlib.sha256("".join(f"{t} {i.fingerprint}\n" for t, i in each.items()).encode())
        return files.Identity(
            name=files.shown_name(self.path),
            bytes=sum(i.bytes for i in each.values()),
            mtime_ns=max(i.mtime_ns for i in each.values()),
            fingerprint=whole.hexdigest(),
        )

    def check_unchanged(self) -> None:
        """InputError where a file has changed since the directory was opened."""
        for table, status in self.statuses.items():
            files.check_unchanged(self._file(table), status)

    def rows_at_most(self, table: str) -> int:
        """Rows of `table`."""
        return int(self._collect(table, pl.scan_parquet(self._file(table)).select(pl.len())).item())

    def parts(self, query: Query) -> list[Callable[[], list[pl.DataFrame]]]:
        """Readers of `query`, one for each range of rows, in stored order; see `SqliteSource`."""
        rows = self.rows_at_most(query.table)
        return [partial(self._read, query, first) for first in range(0, rows, PART_ROWS)]

    def _read(self, query: Query, first: int) -> list[pl.DataFrame]:
        have = self.tables[query.table]
        columns = [
            pl.col(name) if name in have else pl.lit(None).alias(name)
            for name in (*query.required, *query.optional)
        ]
        rows = pl.scan_parquet(self._file(query.table)).slice(first, PART_ROWS).select(columns)
        frame = self._collect(query.table, pl.SQLContext({query.table: rows}).execute(query.sql))
        files.check_unchanged(self._file(query.table), self.statuses[query.table])
        return [frame]

    def _collect(self, table: str, frame: pl.LazyFrame) -> pl.DataFrame:
        try:
            return frame.collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise self._damaged(table, error) from error

    def _schema(self, table: str) -> pl.Schema:
        try:
            return pl.scan_parquet(self._file(table)).collect_schema()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise self._damaged(table, error) from error

    def _file(self, table: str) -> Path:
        return self.path / f"{table}.parquet"

    def _damaged(self, table: str, error: Exception) -> InputError:
        return InputError(self._file(table), f"cannot be read: {error}", _AGAIN_HINT)


def open_parquetdir(path: Path) -> ParquetDirSource | None:
    """The parquetdir export at `path`; None where the directory holds no nsys table."""
    found = {
        table: files.check_file(path / f"{table}.parquet")
        for table in known_tables()
        if os.path.exists(path / f"{table}.parquet")
    }
    return ParquetDirSource(path, found) if found else None
