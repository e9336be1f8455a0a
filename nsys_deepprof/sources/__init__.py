"""What RUN is, and its rows, whatever it is.

An export is a stranger's file: it is read, never trusted, never changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nsys_deepprof.errors import InputError
from nsys_deepprof.sources.files import fingerprint
from nsys_deepprof.sources.parquetdir import open_parquetdir
from nsys_deepprof.sources.sqlite import open_sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    import polars as pl

    from nsys_deepprof.queries import Query
    from nsys_deepprof.sources.files import Identity

    class Source(Protocol):
        """Anything that holds nsys tables and runs the queries of `sql/` over them."""

        @property
        def named(self) -> str:
            """What messages call it."""

        @property
        def tables(self) -> Mapping[str, tuple[str, ...]]:
            """Column names of the nsys tables, by table name."""

        def rows_at_most(self, table: str) -> int:
            """A bound of the rows of `table`, found without reading them."""

        def parts(self, query: Query) -> list[Callable[[], list[pl.DataFrame]]]:
            """Readers of the rows of `query`, in stored order; they can run side by side."""

        def identity(self) -> Identity:
            """Name, size and digest of the content."""

        def check_unchanged(self) -> None:
            """InputError where the source has changed since it was opened."""


__all__ = ["fingerprint", "open_source", "open_sqlite"]


def open_source(
    run: str | Path, *, nsys: str | None = None, message: Callable[[str], None] | None = None
) -> Source:
    """Open an SQLite export (also .gz, .zst, or an fsspec URL), a parquetdir export, or a report.

    `nsys` is the program that exports reports (default: the one on PATH); what it says goes to
    `message`. Raises InputError where the input cannot be used.
    """
    from nsys_deepprof.sources import unpacked

    if unpacked.is_url(str(run)):
        return unpacked.open_remote(str(run))
    path = Path(run)
    if os.path.isdir(path):
        source = open_parquetdir(path)
        if source is None:
            raise InputError(
                path, "a directory, and not a converted dataset", "name the export itself"
            )
        return source
    if path.suffix in unpacked.REPORT_SUFFIXES:
        return unpacked.open_report(path, nsys=nsys, message=message)
    if path.suffix in unpacked.COMPRESSED_SUFFIXES:
        return unpacked.open_compressed(path)
    return open_sqlite(path)
