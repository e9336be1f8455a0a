"""From a source's rows to typed, cleaned frames: one function a table, nothing dropped silently.

Rows come in pieces, read side by side and put back into stored order, so that a conversion can
write them as they come and a direct read can join them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.codes import CODES
from nsys_deepprof.errors import InputError
from nsys_deepprof.parallel import in_order
from nsys_deepprof.queries import Column, Query, load_query
from nsys_deepprof.string_ids import StringIds, lookup, string_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nsys_deepprof.sources import Source

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

LARGEST_TIME_NS = 1 << 61
"""Times beyond this (73 years) cannot be right, and their differences would overflow."""

LONGEST_EVENT_NS = 1 << 53
"""Events longer than this (104 days) cannot be right, and their sums would overflow."""

NO_NAME = "<unknown:NULL>"

NOT_AN_INTEGER = -(1 << 63)
"""What a source gives for a value that is no integer, where an integer should be."""


@dataclass(frozen=True)
class Skip:
    """A source table that could not be used. `lost` is what cannot be computed without it."""

    table: str
    reason: str
    lost: str


@dataclass
class Tally:
    """What happened to rows on their way: `dropped` counts them by reason; `source_rows` is None
    where the source has no such table."""

    source_rows: int | None = None
    dropped: Counter[str] = field(default_factory=Counter)
    skipped: list[Skip] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count what `other` counted."""
        if other.source_rows is not None:
            self.source_rows = (self.source_rows or 0) + other.source_rows
        self.dropped += other.dropped
        self.skipped += other.skipped


@dataclass
class Extracted(Tally):
    """One table: its frame and what happened on the way."""

    frame: pl.DataFrame = field(default_factory=pl.DataFrame)


def read_query(source: Source, name: str, strings: StringIds | None = None) -> Extracted:
    """Run `sql/NAME.sql` and type its rows as the header says.

    Without `strings`, STRING_ID columns become `<unknown:ID>`. A table that is absent gives an
    empty frame of the right schema and a `Skip`. Raises InputError where a required column of an
    essential table is missing.
    """
    result = Extracted()
    empty = pl.DataFrame(schema=_schema(load_query(name)))
    result.frame = pl.concat([empty, *_query_pieces(source, name, strings, result)])
    return result


def event_schema(table: str) -> pl.Schema:
    """The columns of an event table."""
    return _shaped(table, pl.DataFrame(schema=_schema(load_query(EVENT_QUERIES[table][0])))).schema


def sort_key(table: str) -> str | None:
    """The column by which an event table is sorted; None where its rows have no time."""
    return next((c for c in ("start_ns", "time_ns") if c in event_schema(table)), None)


def event_pieces(
    source: Source, table: str, strings: StringIds, tally: Tally
) -> Iterator[pl.DataFrame]:
    """One event table of the dataset in stored order, bad rows dropped and counted in `tally`.

    Each piece is sorted in itself.
    """
    key = sort_key(table)
    for name in EVENT_QUERIES[table]:
        for piece in _query_pieces(source, name, strings, tally, key):
            yield _shaped(table, piece)


def read_events(source: Source, table: str, strings: StringIds) -> Extracted:
    """One event table of the dataset, sorted by start, bad rows dropped and counted."""
    result = Extracted()
    empty = pl.DataFrame(schema=event_schema(table))
    frame = pl.concat([empty, *event_pieces(source, table, strings, result)], rechunk=True)
    key = sort_key(table)
    result.frame = frame if key is None else in_time_order(frame, key)
    return result


def in_time_order(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    """`frame` sorted by `key`; rows of equal times keep their order."""
    return frame if frame[key].is_sorted() else frame.sort(key, maintain_order=True)


def read_strings(source: Source) -> tuple[StringIds, list[Skip]]:
    """The texts of StringIds, and a `Skip` where there are none."""
    result = read_query(source, "strings")
    return string_ids(result.frame["id"], result.frame["value"]), result.skipped


def _schema(query: Query) -> dict[str, pl.DataType]:
    return {column.name: _DTYPES[column.type] for column in query.columns}


def _unusable(source: Source, query: Query) -> Skip | None:
    if query.table not in source.tables:
        return Skip(query.table, "not in the export", query.without)
    absent = [c for c in query.required if c not in source.tables[query.table]]
    if not absent:
        return None
    what = f"table {query.table} has no column {', '.join(absent)}"
    if query.unreadable == "error":
        raise InputError(source.named, what, "export it again with a current nsys")
    return Skip(query.table, what, query.without)


def _query_pieces(
    source: Source,
    name: str,
    strings: StringIds | None,
    tally: Tally,
    key: str | None = None,
) -> Iterator[pl.DataFrame]:
    query = load_query(name)
    skip = _unusable(source, query)
    if skip is not None:
        tally.skipped.append(skip)
        return
    tally.source_rows = tally.source_rows or 0
    jobs = [partial(_piece, part, query, strings, key) for part in source.parts(query)]
    for piece in in_order(jobs, workers=pl.thread_pool_size()):
        tally.add(piece)
        if piece.frame.height:
            yield piece.frame


def _piece(
    part: Callable[[], list[pl.DataFrame]],
    query: Query,
    strings: StringIds | None,
    key: str | None,
) -> Extracted:
    result = Extracted(source_rows=0, frame=pl.DataFrame(schema=_schema(query)))
    raw = part()
    if raw:
        rows = pl.concat(raw)
        result.source_rows = rows.height
        result.frame = _clean(_typed(rows, query, strings, result.dropped), query, result.dropped)
    if key is not None:
        result.frame = in_time_order(result.frame, key)
    return result


def _typed(
    raw: pl.DataFrame, query: Query, strings: StringIds | None, dropped: Counter[str]
) -> pl.DataFrame:
    columns: list[pl.Series] = []
    for column in query.columns:
        series = raw[column.name]
        match column.type:
            case "TEXT":
                columns.append(_text(series))
            case "STRING_ID":
                ids = _integers(series, pl.Int64(), dropped)
                texts = lookup(strings or _no_strings(), ids)
                # An event is called something, whatever its row lacks.
                columns.append(texts.fill_null(NO_NAME) if column.name == "name" else texts)
            case "CODE":
                words = _words(_integers(series, pl.Int64(), dropped), column)
                columns.append(words.fill_null("unknown") if column.code == "copy_kind" else words)
            case _:
                columns.append(_integers(series, _DTYPES[column.type], dropped))
    return pl.DataFrame(columns)


def _no_strings() -> StringIds:
    return string_ids(pl.Series([], dtype=pl.Int64), pl.Series([], dtype=pl.String))


def _text(raw: pl.Series) -> pl.Series:
    """Bytes as text; what is not UTF-8 becomes replacement characters."""
    try:
        return raw.cast(pl.String)
    except pl.exceptions.ComputeError:
        repaired = [None if value is None else value.decode("utf-8", "replace") for value in raw]
        return pl.Series(raw.name, repaired, pl.String)


def _integers(series: pl.Series, dtype: pl.DataType, dropped: Counter[str]) -> pl.Series:
    """Integers of `dtype`; null, and counted, for what is none or does not fit."""
    cast = series if series.dtype == dtype else series.cast(dtype, strict=False)
    lost = cast.null_count() - series.null_count()
    if dtype == pl.Int64 and cast.min() == NOT_AN_INTEGER:
        none = cast == NOT_AN_INTEGER
        lost += int(none.sum())
        cast = cast.set(none, None)
    if lost:
        dropped[f"{series.name}_not_an_integer"] += lost
    return cast


def _words(numbers: pl.Series, column: Column) -> pl.Series:
    assert column.code is not None
    words = numbers.replace_strict(CODES[column.code], default=None, return_dtype=pl.String)
    if words.null_count() > numbers.null_count():
        words = words.fill_null("kind_" + numbers.cast(pl.String))
    return words.cast(pl.Categorical).alias(column.name)


def _clean(frame: pl.DataFrame, query: Query, dropped: Counter[str]) -> pl.DataFrame:
    """Drop rows whose times or device cannot be right; ranges still open (no end) stay."""
    if "start_ns" not in frame.columns:
        return frame
    times = frame.select(
        start="start_ns",
        end=pl.coalesce("end_ns", "start_ns") if query.name == "nvtx_ranges" else "end_ns",
    )
    on_device = "device_id" in frame.columns
    if _sound(times["start"], times["end"]) and not (on_device and frame["device_id"].null_count()):
        return frame
    start, end = pl.col("start"), pl.col("end")
    is_mark = pl.col("kind").eq("mark") if query.name == "nvtx_ranges" else pl.lit(False)
    near = pl.all_horizontal(t.is_between(-LARGEST_TIME_NS, LARGEST_TIME_NS) for t in (start, end))
    reason = (
        pl.when(start.is_null() | end.is_null())
        .then(pl.lit("no_time"))
        .when((start == 0) & (end == 0) & ~is_mark)
        .then(pl.lit("not_collected"))
        .when(~near)
        .then(pl.lit("time_out_of_range"))
        .when(end < start)
        .then(pl.lit("negative_duration"))
        .when(end - start > LONGEST_EVENT_NS)
        .then(pl.lit("time_out_of_range"))
        .when(pl.col("device_id").is_null() if on_device else pl.lit(False))
        .then(pl.lit("no_device"))
    )
    reasons = pl.concat([frame, times], how="horizontal").select(reason.alias("reason"))["reason"]
    for name, count in reasons.drop_nulls().value_counts().iter_rows():
        dropped[name] += count
    return frame.filter(reasons.is_null())


def _sound(start: pl.Series, end: pl.Series) -> bool:
    """Whether no row can be wrong: the quick answer for nearly every piece."""
    if start.null_count() or end.null_count() or not len(start):
        return False
    durations = end - start
    return (
        _least(start) > -LARGEST_TIME_NS
        and _most(end) < LARGEST_TIME_NS
        and _least(durations) >= 0
        and _most(durations) <= LONGEST_EVENT_NS
        and (_least(start) > 0 or not ((start == 0) & (end == 0)).any())
    )


def _least(series: pl.Series) -> int:
    value = series.min()
    assert isinstance(value, int)
    return value


def _most(series: pl.Series) -> int:
    value = series.max()
    assert isinstance(value, int)
    return value


def _shaped(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    return _nvtx_names(frame) if table == "nvtx_ranges" else frame


def _nvtx_names(frame: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("name").cast(pl.Categorical)
    named = pl.col("name_string").cast(pl.String).str.starts_with("<unknown:").not_()
    return frame.with_columns(
        pl.when(pl.col("name") != "")
        .then(text)
        .when(named & (pl.col("name_string").cast(pl.String) != ""))
        .then(pl.col("name_string"))
        .otherwise(pl.lit("<unnamed>").cast(pl.Categorical))
        .alias("name"),
        pl.col("end_ns").is_null().alias("open"),
    ).drop("name_string")
