"""Queue depth over time, in equal bins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof.analyses.queue_depth import STREAM_KEYS, queue_depth
from nsys_deepprof.analyses.timeline import bin_edges
from nsys_deepprof.device import by_lane
from nsys_deepprof.ids import lane_label

if TYPE_CHECKING:
    from nsys_deepprof.intervals import Ints
    from nsys_deepprof.trace import Trace

SCHEMA: dict[str, pl.DataType] = {
    "lane": pl.String(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "depth_mean": pl.Float64(),
    "depth_max": pl.Int64(),
}


def depth_bins(trace: Trace, lanes: list[str], *, max_bins: int = 400) -> pl.DataFrame:
    """The mean (over time) and the largest queue depth per lane and bin.

    The bins of all lanes are the same, from the first to the last change of any of them.
    """
    changes = queue_depth(trace)
    # Text is made per lane, not per change.
    every = {
        part.head(1).select(lane_label()).item(): part for part in by_lane(changes, STREAM_KEYS)
    }
    asked = {lane: every[lane] for lane in lanes if lane in every}
    # Sorted by time: the first and last rows are the ends.
    first = min((part["time_ns"][0] for part in asked.values()), default=0)
    last = max((part["time_ns"][-1] for part in asked.values()), default=0)
    if first == last:
        return pl.DataFrame(schema=SCHEMA)
    edges = bin_edges(first, last, max_bins)
    return pl.concat([_binned(lane, part, edges) for lane, part in asked.items()])


def _binned(lane: str, changes: pl.DataFrame, edges: Ints) -> pl.DataFrame:
    times, depths = changes["time_ns"].to_numpy(), changes["depth"].to_numpy()
    # The depth just after each edge, and the area under the depth up to it.
    last = np.searchsorted(times, edges, side="right") - 1
    at_edge = np.where(last >= 0, depths[np.maximum(last, 0)], 0)
    area = np.concatenate(([0], np.cumsum(depths[:-1] * np.diff(times))))
    upto = np.where(
        last >= 0, area[np.maximum(last, 0)] + at_edge * (edges - times[np.maximum(last, 0)]), 0
    )
    largest = at_edge[:-1].copy()
    index = np.searchsorted(edges, times, side="right") - 1
    inside = index < len(largest)
    np.maximum.at(largest, index[inside], depths[inside])
    return pl.DataFrame(
        {
            "lane": [lane] * len(largest),
            "start_ns": edges[:-1],
            "end_ns": edges[1:],
            "depth_mean": np.diff(upto) / np.diff(edges),
            "depth_max": largest,
        },
        schema=SCHEMA,
    )
