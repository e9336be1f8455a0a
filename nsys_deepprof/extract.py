"""From a source's rows to typed, cleaned frames: one function a table, nothing dropped silently."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.codes import CODES
from nsys_deepprof.errors import InputError
from nsys_deepprof.queries import Column, Query, load_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Protocol

    import pyarrow as pa

    class Source(Protocol):
        """Anything that holds nsys tables and runs the queries of `sql/` over them."""

        @property
        def tables(self) -> Mapping[str, tuple[str, ...]]:
            """Column names of every table, by table name."""

        def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
            """Rows of `query`, in stored order."""


_DTYPES: dict[str, pl.DataType] = {
    "INT64": pl.Int64(),
    "INT32": pl.Int32(),
    "TEXT": pl.String(),
    "STRING_ID": pl.Categorical(),
    "CODE": pl.Categorical(),
}

EVENT_QUERIES: dict[str, tuple[str, ...]] = {
    "kernels": ("kernels",),
    "memcpys": ("memcpys",),
    "memsets": ("memsets",),
    "graph_launches": ("graph_launches",),
    "api_calls": ("api_calls",),
    "syncs": ("syncs",),
    "cuda_events": ("cuda_events",),
    "nvtx_ranges": ("nvtx_ranges",),
    "os_calls": ("os_calls",),
    "profiler_overheads": ("profiler_overheads", "cupti_overheads"),
    "diagnostics": ("diagnostics",),
}
"""Dataset tables of events, and the queries that fill each."""


@dataclass(frozen=True)
class Skip:
    """A source table that could not be used. `lost` is what cannot be computed without it."""

    table: str
    reason: str
    lost: str


@dataclass
class Extracted:
    """One table: its frame and what happened on the way.

    `dropped` counts rows by reason; `source_rows` is None where the source has no such table.
    """

    frame: pl.DataFrame
    source_rows: int | None = None
    dropped: Counter[str] = field(default_factory=Counter)
    skipped: list[Skip] = field(default_factory=list)


def read_query(source: Source, name: str, strings: pl.DataFrame | None = None) -> Extracted:
    """Run `sql/NAME.sql` and type its rows as the header says.

    `strings` has columns `id`, `text`; without it STRING_ID columns become `<unknown:ID>`.
    A table that is absent gives an empty frame of the right schema and a `Skip`.
    Raises InputError where a required column of an essential table is missing.
    """
    query = load_query(name)
    empty = pl.DataFrame(schema={c.name: _DTYPES[c.type] for c in query.columns})
    if query.table not in source.tables:
        return Extracted(empty, skipped=[Skip(query.table, "not in the export", query.without)])
    absent = [c for c in query.required if c not in source.tables[query.table]]
    if absent:
        what = f"table {query.table} has no column {', '.join(absent)}"
        if query.unreadable == "error":
            raise InputError(
                getattr(source, "path", "input"), what, "export it again with a current nsys"
            )
        return Extracted(empty, skipped=[Skip(query.table, what, query.without)])
    parts: list[pl.DataFrame] = []
    result = Extracted(empty, source_rows=0)
    for batch in source.batches(query):
        assert result.source_rows is not None
        result.source_rows += batch.num_rows
        if batch.num_rows:
            raw = pl.DataFrame(pl.from_arrow(batch))
            parts.append(_clean(_typed(raw, query, strings, result.dropped), result.dropped))
    if parts:
        result.frame = pl.concat(parts)
    return result


def read_events(source: Source, table: str, strings: pl.DataFrame) -> Extracted:
    """One event table of the dataset, sorted by start, bad rows dropped and counted."""
    parts = [read_query(source, name, strings) for name in EVENT_QUERIES[table]]
    result = parts[0]
    for part in parts[1:]:
        result.frame = pl.concat([result.frame, part.frame])
        result.dropped += part.dropped
        result.skipped += part.skipped
        if part.source_rows is not None:
            result.source_rows = (result.source_rows or 0) + part.source_rows
    if table == "nvtx_ranges":
        result.frame = _nvtx_names(result.frame)
    order = [c for c in ("start_ns", "time_ns") if c in result.frame.columns]
    if order:
        result.frame = result.frame.sort(order, maintain_order=True)
    return result


def read_strings(source: Source) -> Extracted:
    """StringIds as a frame of `id` (Int64, unique) and `text` (Categorical)."""
    result = read_query(source, "strings")
    result.frame = result.frame.unique("id", keep="last", maintain_order=True).select(
        "id", pl.col("value").cast(pl.Categorical).alias("text")
    )
    return result


def _typed(
    raw: pl.DataFrame, query: Query, strings: pl.DataFrame | None, dropped: Counter[str]
) -> pl.DataFrame:
    columns: list[pl.Series] = []
    for column in query.columns:
        series = raw[column.name]
        match column.type:
            case "TEXT":
                columns.append(series.cast(pl.String))
            case "STRING_ID":
                columns.append(_resolve(_integers(series, pl.Int64(), dropped), strings))
            case "CODE":
                columns.append(_words(_integers(series, pl.Int64(), dropped), column))
            case _:
                columns.append(_integers(series, _DTYPES[column.type], dropped))
    return pl.DataFrame(columns)


def _integers(series: pl.Series, dtype: pl.DataType, dropped: Counter[str]) -> pl.Series:
    if series.dtype == dtype:
        return series
    cast = series.cast(dtype, strict=False)
    lost = cast.null_count() - series.null_count()
    if lost:
        dropped[f"{series.name}_not_an_integer"] += lost
    return cast


def _resolve(ids: pl.Series, strings: pl.DataFrame | None) -> pl.Series:
    if strings is None:
        strings = pl.DataFrame(schema={"id": pl.Int64, "text": pl.Categorical})
    texts = ids.to_frame("id").join(strings, on="id", how="left", maintain_order="left")["text"]
    unknown = texts.is_null() & ids.is_not_null()
    if unknown.any():
        placeholder = ("<unknown:" + ids.cast(pl.String) + ">").cast(pl.Categorical)
        texts = texts.to_frame().select(pl.when(unknown).then(placeholder).otherwise(texts))[:, 0]
    return texts.alias(ids.name)


def _words(numbers: pl.Series, column: Column) -> pl.Series:
    assert column.code is not None
    words = numbers.replace_strict(CODES[column.code], default=None, return_dtype=pl.String)
    placeholder = "kind_" + numbers.cast(pl.String)
    return words.fill_null(placeholder).cast(pl.Categorical).alias(column.name)


def _clean(frame: pl.DataFrame, dropped: Counter[str]) -> pl.DataFrame:
    """Drop rows whose times cannot be right; ranges that are still open (no end) stay."""
    if not {"start_ns", "end_ns"} <= set(frame.columns):
        return frame
    start, end = pl.col("start_ns"), pl.col("end_ns")
    open_ended = "kind" in frame.columns and "domain_id" in frame.columns
    untimed = start.is_null() if open_ended else start.is_null() | end.is_null()
    reason = (
        pl.when(untimed)
        .then(pl.lit("no_time"))
        .when((start == 0) & (end == 0))
        .then(pl.lit("not_collected"))
        .when(end < start)
        .then(pl.lit("negative_duration"))
    )
    reasons = frame.select(reason.alias("reason"))["reason"]
    if reasons.null_count() == frame.height:
        return frame
    for name, count in reasons.drop_nulls().value_counts().iter_rows():
        dropped[name] += count
    return frame.filter(reasons.is_null())


def _nvtx_names(frame: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("name").cast(pl.Categorical)
    named = pl.col("name_string").cast(pl.String).str.starts_with("<unknown:").not_()
    return frame.with_columns(
        pl.when(pl.col("name") != "")
        .then(text)
        .when(named & (pl.col("name_string").cast(pl.String) != ""))
        .then(pl.col("name_string"))
        .otherwise(pl.lit("<unnamed>").cast(pl.Categorical))
        .alias("name")
    ).drop("name_string")
