"""Idle gaps: every interval in which a GPU does nothing, split by why nothing came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof import host, intervals
from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import analysed_windows, gpu_states
from nsys_deepprof.analyses.iteration_of import iteration_of
from nsys_deepprof.device import device_ops
from nsys_deepprof.ids import pid_of
from nsys_deepprof.result import Result
from nsys_deepprof.stream_waits import waits_of_ops
from nsys_deepprof.units import format_ns, format_share

if TYPE_CHECKING:
    from nsys_deepprof.intervals import Intervals, Ints
    from nsys_deepprof.trace import Trace

DEFAULT_MIN_GAP_NS = 10_000
"""Gaps shorter than this are counted and not listed: back-to-back work leaves microseconds."""

DRAIN_NS = 50_000
"""How long before a gap a wait may have ended and still be why the queue was empty."""

CAUSES = (
    "launch",
    "device_wait",
    "sync",
    "alloc",
    "load",
    "api",
    "profiler",
    "os",
    "host",
    "unknown",
)
PART_COLUMNS = tuple(f"{cause}_ns" for cause in CAUSES)

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "duration_ns": pl.Int64(),
    "cause": pl.Enum(CAUSES),
    "cause_name": pl.Categorical(),
    **{column: pl.Int64() for column in PART_COLUMNS},
    "launch_call_ns": pl.Int64(),
    "driver_load_ns": pl.Int64(),
    "queue_full_ns": pl.Int64(),
    "drained_by": pl.Categorical(),
    "prev_op": pl.Categorical(),
    "next_op": pl.Categorical(),
    "next_api": pl.Categorical(),
    "waits_for_stream": pl.Int32(),
    "waits_for_op": pl.Categorical(),
    "nvtx": pl.Categorical(),
    "next_nvtx": pl.Categorical(),
    "iteration": pl.Int64(),
}


_ROW_SCHEMA = SCHEMA | {"prev_row": pl.UInt32(), "next_row": pl.UInt32()}


@with_context
def gaps(trace: Trace, *, min_gap_ns: int = DEFAULT_MIN_GAP_NS) -> Result:
    """Idle gaps of at least `min_gap_ns`, longest first, each with the parts of its cause.

    Columns: gpu, pid (of the process whose work ends the gap), start_ns, end_ns, duration_ns,
    cause (the largest part), cause_name (the call or overhead that takes the most of that part;
    null where it has none), the parts of `PART_COLUMNS` (they add up to duration_ns exactly),
    launch_call_ns (contained in launch_ns: until the call returned), driver_load_ns and
    queue_full_ns (contained in profiler_ns: overhead rows that are the driver's loading of code and
    its full launch queue), drained_by (the waiting call after which the queue was empty), prev_op,
    next_op, next_api (the call that issued next_op), waits_for_stream and waits_for_op (the stream
    that next_op was made to wait for, and the last work on it before the event), nvtx (around the
    middle of the host's part), next_nvtx (around the call), iteration. Before the first and after
    the last operation of a GPU there is no gap.

    A gap that the trace's window cuts is listed with the part inside.

    Extra keys: `min_gap_ns`, `count` and `total_ns` of the rows, `all_count`, `all_total_ns` (the
    idle time, whatever `min_gap_ns`), `window_ns` (analysed time of all GPUs together),
    `by_cause`: a frame of cause, total_ns (of the part), share (of window_ns), gaps (whose largest
    part it is), over all gaps, and `summary`, the same in words.
    """
    every = all_gaps(trace)
    listed = every.filter(pl.col("duration_ns") >= min_gap_ns).sort(
        "duration_ns", "gpu", "start_ns", descending=[True, False, False]
    )
    window_ns = sum(intervals.total(w) for w in analysed_windows(trace).values())
    by_cause = _by_cause(every, window_ns)
    extra: dict[str, Any] = {
        "min_gap_ns": min_gap_ns,
        "count": listed.height,
        "total_ns": int(listed["duration_ns"].sum()),
        "all_count": every.height,
        "all_total_ns": int(every["duration_ns"].sum()),
        "window_ns": window_ns,
        "by_cause": by_cause,
        "summary": _summary(every, by_cause, window_ns),
    }
    return Result("gaps", listed, extra, tuple(_notes(trace, every, min_gap_ns)))


def all_gaps(trace: Trace) -> pl.DataFrame:
    """Every idle gap inside the trace's windows, sorted by (gpu, start_ns). Schema: `SCHEMA`."""
    return gaps_with_rows(trace).select(*SCHEMA)


def gaps_with_rows(trace: Trace) -> pl.DataFrame:
    """`all_gaps` plus prev_row, next_row: the operations around it as rows of `device_ops`."""
    return trace.once("gaps_with_rows", lambda: _all_gaps(trace))


def _by_cause(every: pl.DataFrame, window_ns: int) -> pl.DataFrame:
    counts = every["cause"].value_counts()
    totals = pl.DataFrame(
        {
            "cause": pl.Series(CAUSES, dtype=pl.Enum(CAUSES)),
            "total_ns": pl.Series(
                [int(every[column].sum()) for column in PART_COLUMNS], dtype=pl.Int64
            ),
        }
    )
    share = pl.col("total_ns") / window_ns if window_ns else pl.lit(None, pl.Float64)
    return totals.join(counts, on="cause", how="left", maintain_order="left").select(
        "cause",
        "total_ns",
        share.alias("share"),
        pl.col("count").fill_null(0).cast(pl.Int64).alias("gaps"),
    )


def _summary(every: pl.DataFrame, by_cause: pl.DataFrame, window_ns: int) -> list[str]:
    if every.height == 0:
        return []
    idle_ns = int(every["duration_ns"].sum())
    largest = by_cause.filter(pl.col("total_ns") > 0).sort("total_ns", descending=True)
    parts = ", ".join(
        f"{str(cause).replace('_', ' ')} {format_ns(ns)}"
        for cause, ns in largest.select("cause", "total_ns").iter_rows()
    )
    return [
        f"Idle for {format_ns(idle_ns)} of {format_ns(window_ns)} of GPU time "
        f"({format_share(idle_ns / window_ns)}), in {every.height:,} gaps: {parts}."
    ]


def _notes(trace: Trace, every: pl.DataFrame, min_gap_ns: int) -> list[str]:
    if trace.table("gpus").height == 0:
        return ["No GPU activity in this capture: there is nothing between which to be idle."]
    short = every.filter(pl.col("duration_ns") < min_gap_ns)
    if short.height == 0:
        return []
    total = format_ns(int(short["duration_ns"].sum()))
    return [
        f"{short.height:,} gaps shorter than {format_ns(min_gap_ns)} ({total} together) are not "
        "listed; they count in the totals."
    ]


def _all_gaps(trace: Trace) -> pl.DataFrame:
    found = _idle_intervals(trace)
    if found.height == 0:
        return pl.DataFrame(schema=_ROW_SCHEMA)
    found = found.hstack(_neighbours(trace, found))
    found = found.with_columns(
        # Where the launching call's share begins; the host's share ends there.
        pl.col("call_start_ns")
        .clip(pl.col("gap_start_ns"), pl.col("gap_end_ns"))
        .alias("launch_from_ns"),
        pl.when(pl.col("call_start_ns").is_null())
        .then(pl.lit("unknown"))
        .when(pl.col("call_end_ns") <= pl.col("gap_start_ns"))
        .then(pl.lit("device_wait"))
        .otherwise(pl.lit("host"))
        .alias("case"),
    )
    middle = pl.col("gap_start_ns") + (pl.col("call_start_ns") - pl.col("gap_start_ns")) // 2
    host_part = pl.col("call_start_ns") > pl.col("gap_start_ns")
    around = found.select(
        "call_tid",
        "call_start_ns",
        pl.when(host_part).then(middle).alias("middle_ns"),
    )
    found = found.with_columns(
        host.innermost_ranges(trace, around["call_tid"], around["middle_ns"]).alias("nvtx"),
        host.innermost_ranges(trace, around["call_tid"], around["call_start_ns"]).alias(
            "next_nvtx"
        ),
        iteration_of(trace, found["gpu"], found["start_ns"]).alias("iteration"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
    )
    found = _with_parts(trace, found)
    return found.select(pl.col(name).cast(dtype) for name, dtype in _ROW_SCHEMA.items())


def _idle_intervals(trace: Trace) -> pl.DataFrame:
    """One row per idle interval inside a window: gpu, start_ns, end_ns (clipped to the window),
    gap_start_ns, gap_end_ns (the whole gap)."""
    frames: list[pl.DataFrame] = []
    windows = analysed_windows(trace)
    for gpu, states in gpu_states(trace).items():
        if gpu not in windows:
            continue
        idle = intervals.complement(states.busy, *states.window_ns)
        gap, starts, ends = _clipped(idle, windows[gpu])
        frames.append(
            pl.DataFrame(
                {
                    "gpu": np.full(len(gap), gpu, np.int64),
                    "start_ns": starts,
                    "end_ns": ends,
                    "gap_start_ns": idle[0][gap],
                    "gap_end_ns": idle[1][gap],
                }
            )
        )
    columns = ("gpu", "start_ns", "end_ns", "gap_start_ns", "gap_end_ns")
    empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    return pl.concat([empty, *frames]).sort("gpu", "start_ns")


def _clipped(disjoint: Intervals, windows: Intervals) -> tuple[Ints, Ints, Ints]:
    """The pieces of a disjoint set inside disjoint windows: index of the member, start, end."""
    first = np.searchsorted(windows[1], disjoint[0], side="right")
    beyond = np.searchsorted(windows[0], disjoint[1], side="left")
    count = np.maximum(beyond - first, 0)
    member = np.repeat(np.arange(len(count)), count)
    window = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + first[member]
    starts = np.maximum(disjoint[0][member], windows[0][window])
    ends = np.minimum(disjoint[1][member], windows[1][window])
    return member, starts, ends


def _neighbours(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """Per gap: the operation that ends where it starts (the last one to start), the one that
    starts where it ends (the one whose call is earliest), and the call that issued that.

    Columns: prev_row, next_row, prev_op, next_op, pid, waits_for_stream, waits_for_op, next_api,
    call_start_ns, call_end_ns, call_tid.
    """
    ops, calls = device_ops(trace), host.issuing_calls(trace)
    op_gpu, op_start, op_end = (ops[c].to_numpy() for c in ("gpu", "start_ns", "end_ns"))
    gap_gpu, gap_start, gap_end = (
        found[c].to_numpy() for c in ("gpu", "gap_start_ns", "gap_end_ns")
    )
    prev_row, next_row = (np.zeros(found.height, np.int64) for _ in range(2))
    tied: list[pl.DataFrame] = []
    for gpu in np.unique(gap_gpu):
        gaps_here = np.flatnonzero(gap_gpu == gpu)
        first, beyond = np.searchsorted(op_gpu, [gpu, gpu + 1])
        by_end = np.argsort(op_end[first:beyond], kind="stable")
        ended = np.searchsorted(op_end[first:beyond][by_end], gap_start[gaps_here], side="right")
        prev_row[gaps_here] = first + by_end[ended - 1]
        starts = op_start[first:beyond]
        at = np.searchsorted(starts, gap_end[gaps_here], side="left")
        count = np.searchsorted(starts, gap_end[gaps_here], side="right") - at
        next_row[gaps_here] = first + at
        several = np.flatnonzero(count > 1)
        candidate = np.arange(count[several].sum()) - np.repeat(
            np.cumsum(count[several]) - count[several], count[several]
        )
        tied.append(
            pl.DataFrame(
                {
                    "gap": np.repeat(gaps_here[several], count[several]),
                    "row": np.repeat(first + at[several], count[several]) + candidate,
                }
            )
        )
    ties = pl.concat(tied)
    if ties.height:
        earliest = (
            ties.hstack(calls.select("call_start_ns", "call_end_ns", "call_tid")[ties["row"]])
            .sort("gap", "call_start_ns", "call_end_ns", "call_tid", "row", nulls_last=True)
            .unique("gap", keep="first", maintain_order=True)
        )
        next_row[earliest["gap"].to_numpy()] = earliest["row"].to_numpy()
    following = ops.select("name", "global_pid")[next_row]
    return (
        pl.DataFrame(
            {
                "prev_row": prev_row,
                "next_row": next_row,
                "prev_op": ops["name"][prev_row],
                "next_op": following["name"],
                "pid": following.select(pid_of(pl.col("global_pid")))["global_pid"],
            }
        )
        .hstack(waits_of_ops(trace)[next_row])
        .hstack(
            calls.select(
                pl.col("call_api").alias("next_api"), "call_start_ns", "call_end_ns", "call_tid"
            )[next_row]
        )
    )


_ACTIVITIES_OF_CAUSE = {
    "sync": ("sync",),
    "alloc": ("alloc",),
    "load": ("load",),
    "api": ("api",),
    "profiler": ("profiler", "driver_load", "queue_full"),
    "os": ("os",),
}
"""What a thread does in the parts that are split by it."""


def _with_parts(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """`found` plus the parts, cause, cause_name and drained_by."""
    starts, ends = found["start_ns"].to_numpy(), found["end_ns"].to_numpy()
    columns = (*PART_COLUMNS, "launch_call_ns", "driver_load_ns", "queue_full_ns")
    parts = {column: np.zeros(found.height, np.int64) for column in columns}
    for whole in ("unknown", "device_wait"):
        chosen = (found["case"] == whole).to_numpy()
        parts[f"{whole}_ns"][chosen] = (ends - starts)[chosen]
    names: list[pl.DataFrame] = []
    drained: list[pl.DataFrame] = []
    threads = host.host_threads(trace, found["call_tid"])
    known = found.with_row_index("row").filter(pl.col("call_tid").is_not_null())
    for (tid,), mine in known.group_by("call_tid"):
        assert isinstance(tid, int)
        thread = threads[tid]
        drained.append(_drained_by(thread, mine))
        late = mine.filter(pl.col("case") == "host")
        row = late["row"].to_numpy()
        host_until = np.clip(late["launch_from_ns"].to_numpy(), starts[row], ends[row])
        parts["launch_ns"][row] = ends[row] - host_until
        returned = np.clip(late["call_end_ns"].to_numpy(), host_until, ends[row])
        parts["launch_call_ns"][row] = returned - host_until
        split = thread.split(starts[row], host_until)
        parts["host_ns"][row] = split["host_ns"]
        for cause, activities in _ACTIVITIES_OF_CAUSE.items():
            parts[f"{cause}_ns"][row] = sum(split[f"{activity}_ns"] for activity in activities)
        for column in ("driver_load_ns", "queue_full_ns"):
            parts[column][row] = split[column]
        names.append(_cause_names(thread, late, {c: p[row] for c, p in parts.items()}, host_until))
    return found.with_columns(
        # Popped, so that a long trace's parts are not held twice.
        *(pl.Series(column, parts.pop(column)) for column in columns),
        _scattered("cause_name", names, found.height),
        _scattered("drained_by", drained, found.height),
    ).with_columns(
        pl.when(pl.col("launch_ns") == pl.max_horizontal(PART_COLUMNS))
        .then("next_api")
        .otherwise("cause_name")
        .alias("cause_name"),
        _largest_part().alias("cause"),
    )


def _drained_by(thread: host.HostThread, mine: pl.DataFrame) -> pl.DataFrame:
    """Columns row, name of the gaps that follow a wait."""
    gap_start = mine["gap_start_ns"].to_numpy()
    wait = thread.last_wait(gap_start, gap_start - DRAIN_NS, mine["call_start_ns"].to_numpy())
    hit = wait >= 0
    return pl.DataFrame(
        {"row": mine["row"].filter(pl.Series(hit)), "name": thread.waits["name"].gather(wait[hit])}
    )


def _cause_names(
    thread: host.HostThread, late: pl.DataFrame, parts: dict[str, Ints], until: Ints
) -> pl.DataFrame:
    """Columns row, name: what takes the most of the part that names the cause."""
    largest = np.maximum.reduce([parts[column] for column in PART_COLUMNS])
    found = [pl.DataFrame(schema={"row": pl.UInt32, "name": pl.Categorical})]
    left = np.ones(late.height, np.bool_)
    for cause, column in zip(CAUSES, PART_COLUMNS, strict=True):
        chosen = left & (parts[column] == largest)
        left &= ~chosen
        if cause not in _ACTIVITIES_OF_CAUSE or not chosen.any():
            continue
        row, from_ns = late["row"].to_numpy()[chosen], late["start_ns"].to_numpy()[chosen]
        names = pl.Series("name", [None] * len(row), dtype=pl.Categorical)
        for activity in _ACTIVITIES_OF_CAUSE[cause]:
            names = names.fill_null(thread.longest(activity, from_ns, until[chosen]))
        found.append(pl.DataFrame({"row": pl.Series(row, dtype=pl.UInt32), "name": names}))
    return pl.concat(found)


def _scattered(name: str, found: list[pl.DataFrame], height: int) -> pl.Series:
    """A column of `height` rows with the `name` of each `row` of the frames; null elsewhere."""
    every = pl.concat([pl.DataFrame(schema={"row": pl.UInt32, "name": pl.Categorical}), *found])
    place = np.full(height, -1, np.int64)
    place[every["row"].to_numpy()] = np.arange(every.height)
    at = pl.Series(place)
    return every["name"].gather(at.set(at < 0, None)).alias(name)


def _largest_part() -> pl.Expr:
    largest = pl.max_horizontal(PART_COLUMNS)
    cause: pl.Expr = pl.lit(None, pl.String)
    for name, column in zip(reversed(CAUSES), reversed(PART_COLUMNS), strict=True):
        cause = pl.when(pl.col(column) == largest).then(pl.lit(name)).otherwise(cause)
    return cause
