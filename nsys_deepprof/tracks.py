"""Events on named tracks: what a timeline viewer is given, whatever its file format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof.subtracks import first_fit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nsys_deepprof.intervals import Ints

_TRACK_SCHEMA = {
    "track": pl.Int64,
    "process": pl.Int64,
    "name": pl.String,
    "subtrack": pl.Int64,
    "unit": pl.String,
}
_COUNTER_SCHEMA = {"track": pl.Int64, "time_ns": pl.Int64, "value": pl.Float64}


@dataclass(frozen=True)
class Slices:
    """Events with a duration.

    `events` has process i64, track (a name, unique within its process), start_ns, end_ns i64,
    category, name; any further column is an argument of its events, with its unit in its name. A
    null argument is left out.
    """

    events: pl.DataFrame


@dataclass(frozen=True)
class Counters:
    """Counters of one unit: `events` has process i64, track (a name), time_ns i64, value f64; a
    value holds until the next one of its track."""

    unit: str
    events: pl.DataFrame


@dataclass(frozen=True)
class Tracks:
    """Placed events. Numbers are dense, from 1, and small: viewers keep 32 bits of them.

    `processes` has process, name. `tracks` has track, process, name, subtrack and unit, in the
    order in which they are to be shown; unit is null but for counters. A track holds no two slices
    that overlap: what overlaps is on the next `subtrack` of the same name. `slices` are frames of
    the columns of `Slices.events`, with the track's number as `track` and no process; the events of
    a track are all in one frame and follow one another in time. `counters` has track, time_ns,
    value. Times are those of the trace; `origin_ns` is its start.
    """

    origin_ns: int
    processes: pl.DataFrame
    tracks: pl.DataFrame
    slices: tuple[pl.DataFrame, ...]
    counters: pl.DataFrame


def place(
    layers: Iterable[Slices | Counters], *, processes: pl.DataFrame, origin_ns: int
) -> Tracks:
    """Give every event of the layers its track. Tracks are shown in the order of the layers, and
    within a layer in that of their first events."""
    tracks = [pl.DataFrame(schema=_TRACK_SCHEMA)]
    slices: list[pl.DataFrame] = []
    counters = [pl.DataFrame(schema=_COUNTER_SCHEMA)]
    used = 0
    for layer in layers:
        if layer.events.height == 0:
            continue
        made, events = _numbered(layer, used)
        used += made.height
        tracks.append(made)
        if isinstance(layer, Counters):
            counters.append(
                events.sort("track", "time_ns", maintain_order=True).select(_COUNTER_SCHEMA.keys())
            )
        else:
            slices.append(events.sort("track", "start_ns", "end_ns", maintain_order=True))
    return Tracks(origin_ns, processes, pl.concat(tracks), tuple(slices), pl.concat(counters))


def _numbered(layer: Slices | Counters, used: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The layer's tracks, numbered on from `used`, and its events with their track's number."""
    key = ["process", "track"]
    names = layer.events.select(key).unique(maintain_order=True).with_row_index("group")
    events = layer.events.join(names, on=key, how="left", maintain_order="left")
    events = events.with_columns(_subtracks(layer, events["group"].to_numpy()))
    unit = layer.unit if isinstance(layer, Counters) else None
    tracks = (
        events.group_by("group", "subtrack")
        .agg()
        .join(names, on="group")
        .sort("group", "subtrack")
        .with_row_index("number", offset=used + 1)
    )
    numbered = events.drop(key).join(
        tracks.select("group", "subtrack", pl.col("number").cast(pl.Int64).alias("track")),
        on=["group", "subtrack"],
        how="left",
        maintain_order="left",
    )
    shown = tracks.select(
        pl.col("number").cast(pl.Int64).alias("track"),
        pl.col("process").cast(pl.Int64),
        pl.col("track").cast(pl.String).alias("name"),
        "subtrack",
        pl.lit(unit, pl.String).alias("unit"),
    )
    return shown, numbered.drop("group", "subtrack")


def _subtracks(layer: Slices | Counters, group: Ints) -> pl.Series:
    subtrack = np.zeros(len(group), np.int64)
    if isinstance(layer, Slices):
        starts, ends = (layer.events[c].to_numpy() for c in ("start_ns", "end_ns"))
        by_group = np.argsort(group, kind="stable")
        bounds = np.flatnonzero(np.diff(group[by_group])) + 1
        for rows in np.split(by_group, bounds):
            subtrack[rows] = first_fit(starts[rows], ends[rows])
    return pl.Series("subtrack", subtrack)
