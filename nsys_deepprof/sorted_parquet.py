"""Writing a table to Parquet in the order of time, without holding it in memory.

Pieces go to a file as they come for as long as their times rise; where they fall back (the
exporter writes process after process) a new file begins. One such run is the table. Several are
merged, a slice of time after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_SLICE_ROWS = 1 << 18
_SAMPLE_EVERY = 1 << 12
_TIMES = ("start_ns", "end_ns", "time_ns")
"""Columns whose least and greatest value in each row group is written, to skip row groups by."""


def write_sorted(
    pieces: Iterable[pl.DataFrame], path: Path, schema: pl.Schema, key: str | None
) -> int:
    """Write `pieces`, each sorted by `key`, as one file sorted by it; returns the rows.

    Rows of equal `key` stay in the order in which they come. Without a `key` the order is kept.
    """
    runs: list[Path] = []
    samples: list[pl.Series] = []
    rows = 0
    with _Writer(schema) as writer:
        last = None
        for piece in pieces:
            first = None if key is None else piece[key][0]
            if not runs or (last is not None and first is not None and first < last):
                runs.append(path.with_name(f"{path.name}.{len(runs)}"))
                writer.begin(runs[-1])
            writer.write(piece)
            rows += piece.height
            if key is not None:
                last = piece[key][-1]
                samples.append(piece[key].gather_every(_SAMPLE_EVERY))
    if len(runs) > 1:
        assert key is not None
        merged = _merged(runs, key, pl.concat(samples).sort())
        _write(merged, path, schema)
        for run in runs:
            run.unlink()
    elif runs:
        runs[0].rename(path)
    else:
        _write([], path, schema)
    return rows


def rewrite(path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> int:
    """Apply `change` to a file, a slice of rows at a time; returns the rows that are left.

    `change` keeps the schema and the order.
    """
    old = path.with_name(f"{path.name}.old")
    path.rename(old)
    rows = 0

    def changed() -> Iterator[pl.DataFrame]:
        nonlocal rows
        total = pq.read_metadata(old).num_rows
        for first in range(0, total, _SLICE_ROWS):
            frame = change(pl.scan_parquet(old).slice(first, _SLICE_ROWS).collect())
            rows += frame.height
            yield frame

    _write(changed(), path, pl.scan_parquet(old).collect_schema())
    old.unlink()
    return rows


def _merged(runs: list[Path], key: str, samples: pl.Series) -> Iterator[pl.DataFrame]:
    """The rows of several sorted files in one order, in slices of about `_SLICE_ROWS`."""
    cuts = samples.gather_every(_SLICE_ROWS // _SAMPLE_EVERY).unique().sort().to_list()
    spans = [_span(run, key) for run in runs]
    for low, high in zip(cuts, [*cuts[1:], None], strict=True):
        inside = pl.col(key) >= low
        if high is not None:
            inside &= pl.col(key) < high
        parts = [
            pl.scan_parquet(run).filter(inside).collect()
            for run, (first, last) in zip(runs, spans, strict=True)
            if last >= low and (high is None or first < high)
        ]
        yield pl.concat(parts).sort(key, maintain_order=True)


def _span(run: Path, key: str) -> tuple[int, int]:
    ends = pl.scan_parquet(run).select(pl.col(key).min(), pl.col(key).max().alias("last"))
    first, last = ends.collect().row(0)
    return first, last


def _write(frames: Iterable[pl.DataFrame], path: Path, schema: pl.Schema) -> None:
    with _Writer(schema) as writer:
        writer.begin(path)
        for frame in frames:
            writer.write(frame)


class _Writer:
    """One Parquet file after the other, all of one schema; a row group for each frame."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = pl.DataFrame(schema=schema).to_arrow().schema
        self._dictionaries = [name for name, kind in schema.items() if kind == pl.Categorical]
        self._times = [name for name in schema if name in _TIMES]
        self._file: pa.OSFile | None = None
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._end()
        elif self._file is not None:
            # No footer is written: what is there is no Parquet file, and is not meant to be one.
            self._file.close()

    def begin(self, path: Path) -> None:
        self._end()
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="zstd",
            compression_level=1,
            # Numbers compress well as they are; a dictionary for each takes longer than it saves.
            use_dictionary=self._dictionaries,
            write_statistics=self._times,
        )

    def write(self, frame: pl.DataFrame) -> None:
        assert self._writer is not None
        if frame.height:
            self._writer.write_table(frame.to_arrow())

    def _end(self) -> None:
        if self._writer is not None and self._file is not None:
            with self._file:
                self._writer.close()
        self._file = self._writer = None
