"""Idle gaps: every interval in which a GPU does nothing, split by why nothing came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof import host, intervals
from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import analysed_windows
from nsys_deepprof.analyses.iteration_of import iteration_of
from nsys_deepprof.device import by_gpu, by_lane, device_ops
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

    def with_iteration() -> pl.DataFrame:
        gaps = gaps_alone(trace)
        iteration = iteration_of(trace, gaps["gpu"], gaps["start_ns"])
        return gaps.with_columns(iteration).select(*_ROW_SCHEMA)

    return trace.once("gaps_with_rows", with_iteration)


def gaps_alone(trace: Trace) -> pl.DataFrame:
    """`gaps_with_rows` but for the iteration: what needs no mining."""
    return trace.once("gaps_alone", lambda: _gaps_alone(trace))


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


def _gaps_alone(trace: Trace) -> pl.DataFrame:
    schema = {name: dtype for name, dtype in _ROW_SCHEMA.items() if name != "iteration"}
    ops, found = device_ops(trace), _idle_intervals(trace)
    if found.height == 0:
        return pl.DataFrame(schema=schema)
    found = found.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        ops["name"].gather(found["prev_row"]).alias("prev_op"),
        ops["name"].gather(found["next_row"]).alias("next_op"),
        ops["pid"].gather(found["next_row"]),
    )
    found = found.hstack(waits_of_ops(trace)[found["next_row"]])
    calls = host.issuing_calls(trace, found["next_row"]).rename({"call_api": "next_api"})
    found = found.hstack(calls)
    found = found.hstack(_causes(trace, found))
    return found.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _idle_intervals(trace: Trace) -> pl.DataFrame:
    """One row per idle interval inside a window, sorted by (gpu, start_ns): gpu, start_ns, end_ns
    (clipped to the window), gap_start_ns, gap_end_ns (the whole gap), prev_row, next_row (rows of
    `device_ops`: the operation that ends where the gap starts, the last one to start; the one that
    starts where it ends, the one whose call is earliest)."""
    windows = analysed_windows(trace)
    frames: list[pl.DataFrame] = []
    for gpu, ops in by_gpu(device_ops(trace).with_row_index("row")):
        if gpu not in windows:
            continue
        idle = _between(ops)
        idle = idle.with_columns(_earliest_issued(trace, ops, idle))
        if trace.windows is None:
            idle = idle.with_columns(start_ns="gap_start_ns", end_ns="gap_end_ns")
        else:
            whole = idle["gap_start_ns"].to_numpy(), idle["gap_end_ns"].to_numpy()
            gap, starts, ends = _clipped(whole, windows[gpu])
            idle = idle[gap].with_columns(pl.Series("start_ns", starts), pl.Series("end_ns", ends))
        frames.append(idle.with_columns(pl.lit(gpu, pl.Int64).alias("gpu")))
    return pl.concat(frames) if frames else pl.DataFrame()


def _between(ops: pl.DataFrame) -> pl.DataFrame:
    """The intervals between the operations of one GPU: gap_start_ns, gap_end_ns, prev_row, and
    next_row, the first of those that start there and run; `ops` (sorted by start_ns) has `row`.

    They are the complement of what is busy, and the operations around them are known on the way: a
    gap is where one starts after all before it have ended.
    """
    # An operation without length ends no gap, except at an end of the GPU's window.
    counts = (
        (pl.col("end_ns") > pl.col("start_ns"))
        | (pl.col("start_ns") == pl.col("start_ns").min())
        | (pl.col("end_ns") == pl.col("end_ns").max())
    )
    reach = pl.when(counts).then("end_ns").cum_max().forward_fill()
    latest = pl.when(pl.col("end_ns") == pl.col("reach")).then("row").forward_fill()
    return (
        ops.select("start_ns", "end_ns", "row", counts.alias("counts"), reach.alias("reach"))
        .select(
            pl.col("reach").shift(1).alias("gap_start_ns"),
            pl.col("start_ns").alias("gap_end_ns"),
            latest.shift(1).alias("prev_row"),
            pl.col("row").alias("next_row"),
            "counts",
        )
        .filter(pl.col("counts") & (pl.col("gap_end_ns") > pl.col("gap_start_ns")))
        .drop("counts")
    )


def _earliest_issued(trace: Trace, ops: pl.DataFrame, idle: pl.DataFrame) -> pl.Series:
    """next_row of `idle`; where several operations start at the gap's end, the one whose call is
    the earliest."""
    next_row = idle["next_row"]
    alike = pl.col("start_ns") == pl.col("start_ns").shift(1)
    tied = ops.filter(alike | alike.shift(-1)).select("start_ns", "row")
    tied = idle.select("next_row", pl.col("gap_end_ns").alias("start_ns")).join(tied, on="start_ns")
    if tied.height == 0:
        return next_row
    earliest = (
        tied.hstack(host.issuing_calls(trace, tied["row"]))
        .sort("next_row", "call_start_ns", "call_end_ns", "call_tid", "row", nulls_last=True)
        .unique("next_row", keep="first")
    )
    # Rows are sorted and each ends one gap: its place is found by searching.
    return next_row.scatter(next_row.search_sorted(earliest["next_row"]), earliest["row"])


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


_ACTIVITIES_OF_CAUSE = {
    "sync": ("sync",),
    "alloc": ("alloc",),
    "load": ("load",),
    "api": ("api",),
    "profiler": ("profiler", "driver_load", "queue_full"),
    "os": ("os",),
}
"""What a thread does in the parts that are split by it."""


_TIMES = (*PART_COLUMNS, "launch_call_ns", "driver_load_ns", "queue_full_ns")
_CAUSE_SCHEMA = {
    c: SCHEMA[c] for c in (*_TIMES, "cause", "cause_name", "drained_by", "nvtx", "next_nvtx")
}


def _causes(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """Per gap: the columns of `_CAUSE_SCHEMA`. Where the call that ended it is not known, there is
    nothing to tell: all of its time is unknown."""
    known = found["call_start_ns"].is_not_null()
    if known.all():
        return _known_causes(trace, found)
    duration, unknown = found["duration_ns"], pl.lit("unknown", SCHEMA["cause"])
    if not known.any():
        told = {c: pl.lit(0 if c in _TIMES else None, dtype) for c, dtype in _CAUSE_SCHEMA.items()}
        told |= {"unknown_ns": pl.col("duration_ns"), "cause": unknown}
        return duration.to_frame().select(e.alias(c) for c, e in told.items())
    row = (known.cast(pl.UInt32).cum_sum() - 1).set(~known, None)
    causes = _known_causes(trace, found.filter(known)).select(pl.all().gather(row))
    return causes.with_columns(
        pl.col(*_TIMES).fill_null(0), pl.col("cause").fill_null(unknown)
    ).with_columns(pl.when(known).then("unknown_ns").otherwise(duration).alias("unknown_ns"))


def _known_causes(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """`_causes` of gaps whose call is known."""
    times: dict[str, Ints] = {}
    names: list[pl.DataFrame] = []
    drained: list[pl.DataFrame] = []
    threads = host.host_threads(trace, found["call_tid"])
    times_of = found.select(
        "start_ns", "end_ns", "gap_start_ns", "call_start_ns", "call_end_ns", "call_tid"
    )
    for mine in by_lane(times_of.with_row_index("row"), ["call_tid"]):
        tid = mine["call_tid"][0]
        drained.append(_drained_by(threads[tid], mine))
        # The others were queued before the gap began: they wait for the device.
        late = mine.filter(pl.col("call_end_ns") > pl.col("gap_start_ns"))
        parts, until = _host_parts(threads[tid], late)
        names.append(_cause_names(threads[tid], late, parts, until))
        for column, values in parts.items():
            # Most activities take part in no gap: a column of zeros is not written out.
            if values.any():
                whole = times.setdefault(column, np.zeros(found.height, np.int64))
                whole[late["row"].to_numpy()] = values
    queued = pl.col("call_end_ns") <= pl.col("gap_start_ns")
    waits = pl.when(queued).then("duration_ns").otherwise(0).alias("device_wait_ns")
    # The host's part ends where the call begins.
    host_ns = pl.col("call_start_ns") - pl.col("gap_start_ns")
    middle = found.select(
        pl.when(host_ns > 0).then(pl.col("gap_start_ns") + host_ns // 2)
    ).to_series()
    present = [c for c in PART_COLUMNS if c in times or c == "device_wait_ns"]
    columns = {c: pl.Series(times.pop(c)) if c in times else pl.lit(0, pl.Int64) for c in _TIMES}
    return (
        found.select("next_api", "duration_ns", "call_end_ns", "gap_start_ns")
        .with_columns(**columns)
        .with_columns(waits)
        .with_columns(
            _largest_part(present).alias("cause"),
            _scattered("cause_name", names, found.height),
            _scattered("drained_by", drained, found.height),
            host.innermost_ranges(trace, found["call_tid"], middle).alias("nvtx"),
            host.innermost_ranges(trace, found["call_tid"], found["call_start_ns"]).alias(
                "next_nvtx"
            ),
        )
        .with_columns(
            pl.when(pl.col("cause") == "launch")
            .then("next_api")
            .otherwise("cause_name")
            .alias("cause_name")
        )
        .select(*_CAUSE_SCHEMA)
    )


def _host_parts(thread: host.HostThread, late: pl.DataFrame) -> tuple[dict[str, Ints], Ints]:
    """The parts of gaps in which the launching call returned, and where each host part ends."""
    starts, ends = late["start_ns"].to_numpy(), late["end_ns"].to_numpy()
    until = np.clip(late["call_start_ns"].to_numpy(), starts, ends)
    returned = np.clip(late["call_end_ns"].to_numpy(), until, ends)
    split = thread.split(starts, until)
    activities = {
        f"{cause}_ns": np.sum([split[f"{a}_ns"] for a in parts], axis=0)
        for cause, parts in _ACTIVITIES_OF_CAUSE.items()
    }
    return {
        "launch_ns": ends - until,
        "launch_call_ns": returned - until,
        **activities,
        **{c: split[c] for c in ("host_ns", "driver_load_ns", "queue_full_ns")},
    }, until


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
    largest = np.maximum.reduce([parts[c] for c in PART_COLUMNS if c in parts])
    found = [pl.DataFrame(schema={"row": pl.UInt32, "name": pl.Categorical})]
    left = np.ones(late.height, np.bool_)
    for cause, column in zip(CAUSES, PART_COLUMNS, strict=True):
        if column not in parts:
            continue
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


def _scattered(name: str, found: list[pl.DataFrame], height: int) -> pl.Series | pl.Expr:
    """A column of `height` rows with the `name` of each `row` of the frames; null elsewhere."""
    every = pl.concat([pl.DataFrame(schema={"row": pl.UInt32, "name": pl.Categorical}), *found])
    if every["name"].null_count() == every.height:
        return pl.lit(None, pl.Categorical).alias(name)
    place = np.full(height, -1, np.int64)
    place[every["row"].to_numpy()] = np.arange(every.height)
    return every["name"].gather(pl.Series(place).cast(pl.UInt32, strict=False)).alias(name)


def _largest_part(columns: list[str]) -> pl.Expr:
    """The cause whose part is the largest, of these columns; the first of equals."""
    cause: pl.Expr = pl.lit(None, SCHEMA["cause"])
    largest = pl.max_horizontal(columns)
    for column in reversed(columns):
        this = pl.lit(column.removesuffix("_ns"), SCHEMA["cause"])
        cause = pl.when(pl.col(column) == largest).then(this).otherwise(cause)
    return cause
