"""Tracks as a trace for ui.perfetto.dev: TrackEvent protocol buffers.

Times are exact, in ns from the trace's start; each slice has its times on the trace's own clock as
arguments. Names are interned: the file says each text once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof.reports import protobuf as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from nsys_deepprof.tracks import Tracks

CHUNK_ROWS = 50_000
"""Rows encoded at a time: bounds memory, and keeps the work inside the processor's cache."""

# Field numbers and values of perfetto's trace.proto and of the messages in it.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _TRACK, _FIRST = 8, 10, 11, 12, 13, 60, 87
_CLEARED, _NEEDS_INTERNED = 1, 2
_CATEGORY, _ARGUMENT, _TYPE, _NAME, _ON_TRACK, _VALUE = 3, 4, 9, 10, 11, 44
_BEGIN, _END, _COUNTER = 1, 2, 4
_ARGUMENT_NAME, _BOOL, _INT, _DOUBLE, _TEXT = 1, 2, 4, 5, 17
_UUID, _TRACK_NAME, _PROCESS, _PARENT, _COUNTER_TRACK, _ORDERING, _RANK = 1, 2, 3, 5, 8, 11, 12
_ORDER_BY_RANK = 3
_PID, _PROCESS_NAME, _UNIT_NAME = 1, 6, 6
_CATEGORIES, _NAMES, _ARGUMENT_NAMES, _TEXTS = 1, 2, 3, 29

_OWN_COLUMNS = ("track", "category", "name")


def to_perfetto(tracks: Tracks) -> Iterator[bytes]:
    """The trace file in pieces, to be written one after another."""
    yield from map(_packet, _track_descriptors(tracks))
    texts = _distinct_texts(tracks.slices)
    yield _packet(
        pb.number(_SEQUENCE, 1)
        + pb.nested(_INTERNED, b"".join(_interned(texts)))
        + pb.number(_FLAGS, _CLEARED)
        + pb.number(_FIRST, 1)
    )
    first_uuid = tracks.processes.height
    for frame in tracks.slices:
        coded = _coded(frame, texts)
        fields = {c: _argument_field(d) for c, d in frame.schema.items() if c not in _OWN_COLUMNS}
        for rows in coded.iter_slices(CHUNK_ROWS):
            yield _slices(rows, fields, texts[_ARGUMENT_NAMES], tracks.origin_ns, first_uuid)
    for rows in tracks.counters.iter_slices(CHUNK_ROWS):
        yield _counters(rows, tracks.origin_ns, first_uuid)


def _packet(body: bytes) -> bytes:
    return pb.nested(_PACKET, body)


def _track_descriptors(tracks: Tracks) -> Iterator[bytes]:
    """Processes have the first uuids, their tracks those after. Tracks of one name and parent are
    shown as one by the viewer."""
    for process, name in tracks.processes.iter_rows():
        yield pb.nested(
            _TRACK,
            pb.number(_UUID, process)
            + pb.nested(_PROCESS, pb.number(_PID, process) + pb.text(_PROCESS_NAME, name))
            + pb.number(_ORDERING, _ORDER_BY_RANK),
        )
    for row in tracks.tracks.iter_rows(named=True):
        body = (
            pb.number(_UUID, tracks.processes.height + row["track"])
            + pb.text(_TRACK_NAME, row["name"])
            + pb.number(_PARENT, row["process"])
        )
        if row["unit"] is not None:
            body += pb.nested(_COUNTER_TRACK, pb.text(_UNIT_NAME, row["unit"]))
        yield pb.nested(_TRACK, body + pb.number(_RANK, row["track"]))


def _distinct_texts(frames: Iterable[pl.DataFrame]) -> dict[int, pl.Series]:
    """Each text that the slices use, once, by the field of interned data that it goes to."""
    fields = (_CATEGORIES, _NAMES, _ARGUMENT_NAMES, _TEXTS)
    used: dict[int, list[pl.Series]] = {field: [] for field in fields}
    for frame in frames:
        used[_CATEGORIES].append(frame["category"])
        used[_NAMES].append(frame["name"])
        arguments = [c for c in frame.columns if c not in _OWN_COLUMNS]
        used[_ARGUMENT_NAMES].append(pl.Series(arguments, dtype=pl.String))
        used[_TEXTS] += [frame[c] for c in arguments if _is_text(frame.schema[c])]
    return {field: _distinct(columns) for field, columns in used.items()}


def _distinct(columns: list[pl.Series]) -> pl.Series:
    texts = [c.unique(maintain_order=True).cast(pl.String).alias("text") for c in columns]
    every = pl.concat([pl.Series("text", [], dtype=pl.String), *texts])
    return every.drop_nulls().unique(maintain_order=True)


def _interned(texts: dict[int, pl.Series]) -> Iterator[bytes]:
    for field, distinct in texts.items():
        for iid, value in enumerate(distinct, start=1):
            yield pb.nested(field, pb.number(1, iid) + pb.text(2, value))


def _coded(frame: pl.DataFrame, texts: dict[int, pl.Series]) -> pl.DataFrame:
    """Texts as their interning ids."""

    def iids(column: str, field: int) -> pl.Series:
        return frame[column].cast(pl.Enum(texts[field])).to_physical().cast(pl.Int64) + 1

    arguments = [c for c in frame.columns if c not in _OWN_COLUMNS and _is_text(frame.schema[c])]
    return frame.with_columns(
        iids("category", _CATEGORIES), iids("name", _NAMES), *(iids(c, _TEXTS) for c in arguments)
    )


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def _argument_field(dtype: pl.DataType) -> int:
    if _is_text(dtype):
        return _TEXT
    if dtype == pl.Boolean:
        return _BOOL
    return _DOUBLE if dtype.is_float() else _INT


def _slices(
    rows: pl.DataFrame,
    fields: dict[str, int],
    argument_names: pl.Series,
    origin_ns: int,
    first_uuid: int,
) -> bytes:
    """Two packets a row: its beginning and, right after, its end."""
    number_of = {name: iid for iid, name in enumerate(argument_names, start=1)}
    on_track = pb.integer(_ON_TRACK, rows["track"].to_numpy() + first_uuid)
    arguments = [
        _argument(rows[column], field, number_of[column])
        for column, field in fields.items()
        if rows[column].null_count() < rows.height
    ]
    begin = pb.message(
        _EVENT,
        pb.integer(_CATEGORY, rows["category"].to_numpy()),
        *arguments,
        pb.integer(_TYPE, _same(_BEGIN, rows)),
        pb.integer(_NAME, rows["name"].to_numpy()),
        on_track,
    )
    end = pb.message(_EVENT, pb.integer(_TYPE, _same(_END, rows)), on_track)
    return pb.to_bytes(
        pb.beside(
            _event_packet(rows["start_ns"], origin_ns, begin),
            _event_packet(rows["end_ns"], origin_ns, end),
        )
    )


def _argument(column: pl.Series, field: int, name_iid: int) -> pb.Rows:
    present = column.is_not_null().to_numpy()
    values = column.cast(pl.Float64 if field == _DOUBLE else pl.Int64).fill_null(0).to_numpy()
    value = pb.double(field, values) if field == _DOUBLE else pb.integer(field, values)
    name = pb.integer(_ARGUMENT_NAME, np.full(len(values), name_iid))
    return pb.message(_ARGUMENT, name, value, present=present)


def _counters(rows: pl.DataFrame, origin_ns: int, first_uuid: int) -> bytes:
    event = pb.message(
        _EVENT,
        pb.integer(_TYPE, _same(_COUNTER, rows)),
        pb.integer(_ON_TRACK, rows["track"].to_numpy() + first_uuid),
        pb.double(_VALUE, rows["value"].to_numpy()),
    )
    return pb.to_bytes(_event_packet(rows["time_ns"], origin_ns, event))


def _event_packet(time_ns: pl.Series, origin_ns: int, event: pb.Rows) -> pb.Rows:
    count = np.ones(time_ns.len(), np.int64)
    return pb.message(
        _PACKET,
        pb.integer(_TIMESTAMP, time_ns.to_numpy() - origin_ns),
        pb.integer(_SEQUENCE, count),
        event,
        pb.integer(_FLAGS, count * _NEEDS_INTERNED),
    )


def _same(value: int, rows: pl.DataFrame) -> NDArray[np.int64]:
    return np.full(rows.height, value)
