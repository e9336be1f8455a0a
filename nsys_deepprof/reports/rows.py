"""Rows for programs: JSON, CSV and Parquet."""

from __future__ import annotations

import io
import json
import math
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

if TYPE_CHECKING:
    from nsys_deepprof.result import Result

JSON_SCHEMA = "nsys-deepprof/1"


def to_json(result: Result, source: str, *, limit: int = 0) -> str:
    """One JSON object: schema, command, source, rows, and the result's own keys.

    NaN and infinity become null. `rows_total` is the number of rows before the limit.
    """
    document = {
        "schema": JSON_SCHEMA,
        "command": result.command,
        "source": source,
        "rows": _rows(_limited(result.frame, limit)),
        "rows_total": result.frame.height,
        "notes": list(result.notes),
    }
    taken = document.keys() & result.extra.keys()
    if taken:
        raise ValueError(f"{result.command}: keys of the document itself: {', '.join(taken)}")
    document |= {key: plain(value) for key, value in result.extra.items()}
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def to_csv(result: Result, *, limit: int = 0) -> str:
    """Comma-separated rows with a header; lists and structs as JSON text; null is empty."""
    frame = _limited(result.frame, limit)
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
    texts = [
        pl.Series(
            name,
            [None if v is None else json.dumps(plain(v), ensure_ascii=False) for v in frame[name]],
            dtype=pl.String,
        )
        for name in nested
    ]
    return frame.with_columns(texts).write_csv()


def to_parquet(result: Result, *, limit: int = 0) -> bytes:
    """The rows as a Parquet file, with the frame's own types."""
    buffer = io.BytesIO()
    _limited(result.frame, limit).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def plain(value: Any) -> Any:
    """`value` in JSON's own types: frames as lists of rows, NaN and infinity as None."""
    if isinstance(value, pl.DataFrame):
        return _rows(value)
    if isinstance(value, pl.Series):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _limited(frame: pl.DataFrame, limit: int) -> pl.DataFrame:
    return frame.head(limit) if limit else frame


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    finite = frame.with_columns(pl.when(cs.float().is_finite()).then(cs.float()))
    return [{k: plain(v) for k, v in row.items()} for row in finite.iter_rows(named=True)]
