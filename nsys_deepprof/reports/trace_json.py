"""Tracks as JSON in the Trace Event Format: for chrome://tracing and for scripts.

The format counts in µs: times have three decimals, and each slice has its exact times as arguments.
It names no tracks but threads, so every track is a thread here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsys_deepprof.tracks import Tracks

CHUNK_ROWS = 50_000

EXACT_IN_DOUBLE = 1 << 53
"""Readers that hold numbers as doubles lose integers from here on: those are text."""

_OWN_COLUMNS = ("track", "category", "name")


def to_trace_json(tracks: Tracks) -> Iterator[bytes]:
    """The file in pieces, to be written one after another."""
    separator = '{"displayTimeUnit":"ns","traceEvents":[\n'
    for piece in _pieces(tracks):
        yield (separator + piece).encode()
        separator = ",\n"
    yield b"\n]}\n" if separator == ",\n" else (separator + "]}\n").encode()


def _pieces(tracks: Tracks) -> Iterator[str]:
    named = [*_process_names(tracks.processes), *_track_names(tracks.tracks)]
    if named:
        yield ",\n".join(json.dumps(event, ensure_ascii=False) for event in named)
    process = tracks.tracks.select("track", "process")
    for frame in tracks.slices:
        located = frame.join(process, on="track", how="left", maintain_order="left")
        for rows in located.iter_slices(CHUNK_ROWS):
            yield _slices(rows, tracks.origin_ns)
    counters = tracks.counters.join(
        tracks.tracks.select("track", "process", "name", "unit"),
        on="track",
        how="left",
        maintain_order="left",
    )
    for rows in counters.iter_slices(CHUNK_ROWS):
        yield _counters(rows, tracks.origin_ns)


def _process_names(processes: pl.DataFrame) -> Iterator[dict[str, object]]:
    for process, name in processes.iter_rows():
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
        yield {
            "ph": "M",
            "pid": process,
            "name": "process_sort_index",
            "args": {"sort_index": process},
        }


def _track_names(tracks: pl.DataFrame) -> Iterator[dict[str, object]]:
    for row in tracks.filter(pl.col("unit").is_null()).iter_rows(named=True):
        where = {"ph": "M", "pid": row["process"], "tid": row["track"]}
        name = row["name"] if row["subtrack"] == 0 else f"{row['name']} [{row['subtrack'] + 1}]"
        yield {**where, "name": "thread_name", "args": {"name": name}}
        yield {**where, "name": "thread_sort_index", "args": {"sort_index": row["track"]}}


def _slices(rows: pl.DataFrame, origin_ns: int) -> str:
    arguments = [
        pl.concat_str(pl.lit(f',"{column}":'), _literal(rows[column])).fill_null("")
        for column in rows.columns
        if column not in (*_OWN_COLUMNS, "process", "start_ns", "end_ns")
        and rows[column].null_count() < rows.height
    ]
    return _joined(
        rows,
        '{"ph":"X","pid":',
        pl.col("process"),
        ',"tid":',
        pl.col("track"),
        ',"ts":',
        _microseconds(pl.col("start_ns") - origin_ns),
        ',"dur":',
        _microseconds(pl.col("end_ns") - pl.col("start_ns")),
        ',"name":',
        _literal(rows["name"]),
        ',"cat":',
        _literal(rows["category"]),
        ',"args":{"start_ns":',
        _literal(rows["start_ns"]),
        ',"end_ns":',
        _literal(rows["end_ns"]),
        *arguments,
        "}}",
    )


def _counters(rows: pl.DataFrame, origin_ns: int) -> str:
    return _joined(
        rows,
        '{"ph":"C","pid":',
        pl.col("process"),
        ',"ts":',
        _microseconds(pl.col("time_ns") - origin_ns),
        ',"name":',
        _literal(rows["name"]),
        ',"args":{',
        _literal(rows["unit"]),
        ":",
        _literal(rows["value"]),
        "}}",
    )


def _joined(rows: pl.DataFrame, *parts: pl.Expr | str | pl.Series) -> str:
    expressions = [pl.lit(part) if not isinstance(part, pl.Expr) else part for part in parts]
    text = rows.select(pl.concat_str(expressions).str.join(",\n")).item()
    assert isinstance(text, str)
    return text


def _microseconds(duration_ns: pl.Expr) -> pl.Expr:
    whole = (duration_ns // 1000).cast(pl.String)
    return pl.concat_str(whole, pl.lit("."), (duration_ns % 1000).cast(pl.String).str.zfill(3))


def _literal(column: pl.Series) -> pl.Series:
    """The values as JSON; null where they are, or where JSON has no such number."""
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        texts = column.unique().drop_nulls().cast(pl.String)
        quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
        return column.cast(pl.String).replace_strict(
            texts, pl.Series(quoted, dtype=pl.String), default=None
        )
    if column.dtype == pl.Boolean:
        return column.replace_strict({True: "true", False: "false"}, return_dtype=pl.String)
    value = pl.col(column.name)
    text = value.cast(pl.String)
    if column.dtype.is_float():
        return column.to_frame().select(pl.when(value.is_finite()).then(text)).to_series()
    quoted_text = pl.concat_str(pl.lit('"'), text, pl.lit('"'))
    exact = (value > -EXACT_IN_DOUBLE) & (value < EXACT_IN_DOUBLE)
    return column.to_frame().select(pl.when(exact).then(text).otherwise(quoted_text)).to_series()
