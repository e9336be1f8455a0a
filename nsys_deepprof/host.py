"""The host's side: which call issued each device operation, and what each thread was doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import intervals
from nsys_deepprof.cuda_api import with_classes
from nsys_deepprof.device import device_ops, in_gpu_order, with_gpu
from nsys_deepprof.ids import global_pid_of

if TYPE_CHECKING:
    from nsys_deepprof.intervals import Intervals, Ints
    from nsys_deepprof.trace import Trace

ACTIVITIES = ("sync", "alloc", "load", "api", "driver_load", "queue_full", "profiler", "os")
"""What a thread can be seen doing, by precedence: rows nest, and each nanosecond counts once.

sync to api are CUDA calls. driver_load, queue_full and profiler are overhead rows outside of them:
the driver loading code, the driver waiting for room in its launch queue, the profiler's own cost.
os are OS runtime calls outside of all these.
"""


def api_calls(trace: Trace) -> pl.DataFrame:
    """Every API call, sorted by (start_ns, end_ns, global_tid).

    Columns: start_ns, end_ns, global_tid, global_pid, correlation_id i64, api (Categorical, without
    suffixes), api_class (Enum of `cuda_api.CLASSES`), waits bool: the call does not return before
    the device has done something (a synchronise, a synchronous copy or memset by name, or an
    asynchronous copy of pageable memory).
    """
    return trace.once("host.api_calls", lambda: _api_calls(trace), whole_trace=True)


def _api_calls(trace: Trace) -> pl.DataFrame:
    calls = (
        with_classes(trace.table("api_calls"))
        .sort("start_ns", "end_ns", "global_tid", maintain_order=True)
        .select(
            "start_ns",
            "end_ns",
            "global_tid",
            global_pid_of(pl.col("global_tid")).alias("global_pid"),
            "correlation_id",
            "api",
            "api_class",
        )
    )
    staged = (
        trace.table("memcpys")
        .filter(pageable_side())
        .select("global_pid", "correlation_id", pl.lit(True).alias("staged"))
        .unique()
    )
    by_name = pl.col("api_class").is_in(["sync", "sync_copy", "sync_memset"])
    if staged.height == 0:
        return calls.with_columns(by_name.alias("waits"))
    return calls.join(
        staged, on=["global_pid", "correlation_id"], how="left", maintain_order="left"
    ).select(
        *calls.columns,
        (by_name | ((pl.col("api_class") == "async_copy") & pl.col("staged").fill_null(False)))
        .fill_null(False)
        .alias("waits"),
    )


def pageable_side() -> pl.Expr:
    """Whether a copy has pageable host memory on either side; unknown kinds are not pageable."""
    return (pl.col("src_kind") == "pageable").fill_null(False) | (
        pl.col("dst_kind") == "pageable"
    ).fill_null(False)


def issuing_calls(trace: Trace, rows: pl.Series | None = None) -> pl.DataFrame:
    """The calls that issued these `rows` of `device_ops` (None: every row), row by row; all null
    where the call is unknown.

    Columns: call_start_ns, call_end_ns, call_tid i64, call_api (Categorical), call_class (Enum).
    Joined on (process, correlation id); where several calls carry one id, the earliest counts.
    Unified-memory migrations have none.
    """
    call = call_rows(trace)
    if rows is not None:
        call = call.gather(rows)
    calls = api_calls(trace)
    columns = {
        "start_ns": "call_start_ns",
        "end_ns": "call_end_ns",
        "global_tid": "call_tid",
        "api": "call_api",
        "api_class": "call_class",
    }
    if call.null_count() == len(call):
        # Literals: long columns of nothing else would be written out.
        nothing = (pl.lit(None, calls.schema[c]).alias(name) for c, name in columns.items())
        return call.to_frame("call").with_columns(nothing).drop("call")
    return calls.select(pl.col(column).gather(call).alias(name) for column, name in columns.items())


def call_rows(trace: Trace) -> pl.Series:
    """Per row of `device_ops`, the row of `api_calls` that issued it, or null (u32)."""
    return trace.once(
        "host.call_rows",
        lambda: _earliest_call(device_ops(trace), api_calls(trace)),
        whole_trace=True,
    )


def first_of_call(call: pl.Series) -> pl.Series:
    """Whether each row is the first of those that one call issued; never where the call is unknown.
    `call` is of `call_rows`, or a part of it.

    Calls are numbered, so that places are written down instead of numbers being hashed.
    """
    known = call.is_not_null()
    numbers, rows = call.drop_nulls().to_numpy(), known.arg_true().to_numpy()
    place = np.full(int(numbers.max(initial=0)) + 1, -1, np.int64)
    # Backwards, so that the first of a call is what stays.
    place[numbers[::-1]] = rows[::-1]
    first = np.zeros(len(call), np.bool_)
    first[place[place >= 0]] = True
    return pl.Series("first_of_call", first)


def _earliest_call(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Per operation, the row of the first of `calls` with its process and correlation id, or null.

    A search over sorted ids, a process at a time: ids come almost in order, which a join does not
    make use of.
    """
    if calls.height == 0:
        return pl.repeat(None, ops.height, dtype=pl.UInt32, eager=True)
    found = np.full(ops.height, -1, np.int64)
    of_call, of_op = (
        {
            process: part["row"].to_numpy()
            for (process,), part in frame.with_row_index("row")
            .filter(pl.col("correlation_id").is_not_null())
            .select("row", "global_pid")
            .partition_by("global_pid", as_dict=True, maintain_order=True)
            .items()
        }
        for frame in (calls, ops)
    )
    call_ids, op_ids = (f["correlation_id"].fill_null(0).to_numpy() for f in (calls, ops))
    for process in of_call.keys() & of_op.keys() - {None}:
        theirs, mine = of_call[process], of_op[process]
        # A stable order and the leftmost hit: the earliest of the calls that share an id.
        theirs = theirs[np.argsort(call_ids[theirs], kind="stable")]
        ids, wanted = call_ids[theirs], op_ids[mine]
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        hit = ids[at] == wanted
        found[mine[hit]] = theirs[at[hit]]
    return pl.Series(found).cast(pl.UInt32, strict=False)


_OP_OF_TABLE = {"kernels": "kernel", "memcpys": "memcpy", "memsets": "memset"}


def with_calls(trace: Trace, table: str) -> pl.DataFrame:
    """The rows of `kernels`, `memcpys` or `memsets`, sorted by (gpu, start_ns), plus gpu, pid and
    the columns of `issuing_calls`."""
    rows = in_gpu_order(with_gpu(trace.table(table), trace))
    # device_ops holds the same rows in the same order, among others.
    mine = device_ops(trace)["op"] == _OP_OF_TABLE[table]
    return rows.hstack(issuing_calls(trace, None if mine.all() else mine.arg_true()))


@dataclass(frozen=True)
class HostThread:
    """One thread's time line.

    `layers[k]` is the disjoint set in which the thread is in any of the first k+1 `ACTIVITIES`;
    `rows[k]` holds the rows of activity k (start_ns, end_ns, name), sorted by start. `waits` holds
    the rows of its waiting calls, sorted by end.
    """

    layers: tuple[Intervals, ...]
    rows: tuple[pl.DataFrame, ...]
    waits: pl.DataFrame

    def split(self, starts_ns: Ints, ends_ns: Ints) -> dict[str, Ints]:
        """For each interval, the ns in each activity and, as `host_ns`, in none: they add up."""
        parts = intervals.layer_lengths(self.layers, starts_ns, ends_ns)
        return dict(zip((*(f"{a}_ns" for a in ACTIVITIES), "host_ns"), parts, strict=True))

    def last_wait(self, begun_before_ns: Ints, ended_from_ns: Ints, ended_by_ns: Ints) -> Ints:
        """For each query, the row of `waits` that ends last in [ended_from, ended_by] among those
        that start before `begun_before`; -1 for none."""
        starts, ends = self.waits["start_ns"].to_numpy(), self.waits["end_ns"].to_numpy()
        upto = np.searchsorted(ends, ended_by_ns, side="right") - 1
        found = intervals.last_above(-starts, upto, -begun_before_ns)
        late_enough = ends[found] >= ended_from_ns if len(ends) else np.zeros(len(found), np.bool_)
        return np.where((found >= 0) & late_enough, found, -1)

    def longest(self, activity: str, starts_ns: Ints, ends_ns: Ints) -> pl.Series:
        """For each interval, the name of the row of `activity` that takes the most of it."""
        rows = self.rows[ACTIVITIES.index(activity)]
        starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        index = pl.Series(intervals.longest_overlap(starts, ends, starts_ns, ends_ns))
        return rows["name"].gather(index.set(index < 0, None))


def host_threads(trace: Trace, tids: pl.Series) -> dict[int, HostThread]:
    """Time lines of the threads `tids` (globalTid)."""
    wanted = tids.unique().drop_nulls().to_list()
    calls = _by_thread(api_calls(trace), wanted)
    profiler = _by_thread(trace.table("profiler_overheads"), wanted)
    system = _by_thread(trace.table("os_calls"), wanted)
    return {tid: _host_thread(calls[tid], profiler[tid], system[tid]) for tid in wanted}


def queue_full() -> pl.Expr:
    """Whether an overhead row is the driver holding a thread because its launch queue is full."""
    return _overhead_name() == "command buffer full"


def loading() -> pl.Expr:
    """Whether an overhead row is the driver loading a module or a function, or compiling it."""
    return _overhead_name().str.ends_with("loading") | (_overhead_name() == "driver compiler")


def _overhead_name() -> pl.Expr:
    return pl.col("name").cast(pl.String).fill_null("").str.to_lowercase()


def profilers_own() -> pl.Expr:
    """Whether an overhead row is the profiler's own cost: CUPTI reports some of the driver's work
    in the same tables."""
    return ~queue_full() & ~loading()


def _by_thread(frame: pl.DataFrame, tids: list[int]) -> dict[int, pl.DataFrame]:
    found = frame.filter(pl.col("global_tid").is_in(tids)).partition_by(
        "global_tid", as_dict=True, maintain_order=True
    )
    return {tid: found.get((tid,), frame.clear()) for tid in tids}


def _host_thread(calls: pl.DataFrame, profiler: pl.DataFrame, system: pl.DataFrame) -> HostThread:
    calls = calls.rename({"api": "name"})
    is_class = pl.col("api_class").cast(pl.String)
    of_activity = (
        calls.filter("waits"),
        calls.filter(is_class == "alloc"),
        calls.filter(is_class == "load"),
        calls.filter(~pl.col("waits") & ~is_class.is_in(["alloc", "load"])),
        profiler.filter(loading()),
        profiler.filter(queue_full()),
        profiler.filter(profilers_own()),
        system,
    )
    rows = tuple(part.select("start_ns", "end_ns", "name") for part in of_activity)
    layers = intervals.stacked(
        (part["start_ns"].to_numpy(), part["end_ns"].to_numpy()) for part in rows
    )
    return HostThread(layers, rows, rows[0].sort("end_ns", maintain_order=True))


def innermost_ranges(trace: Trace, tids: pl.Series, times_ns: pl.Series) -> pl.Series:
    """The name of the innermost NVTX range of each thread around each time; null for none.

    A range holds its start and not its end; of those around a time the innermost is the one that
    starts last (of equal starts, the one that ends first). Marks are no ranges.
    """
    queries = pl.DataFrame({"global_tid": tids, "time_ns": times_ns}).with_row_index("query")
    asked = queries.filter(pl.col("global_tid").is_not_null() & pl.col("time_ns").is_not_null())
    found_query: list[pl.Series] = []
    found_name: list[pl.Series] = []
    threads = _ranges_by_thread(trace)
    for (tid,), mine in asked.group_by("global_tid"):
        if tid not in threads:
            continue
        ranges, larger = threads[tid]
        times = mine["time_ns"].to_numpy()
        upto = np.searchsorted(ranges["start_ns"].to_numpy(), times, side="right") - 1
        index = intervals.last_above(ranges["end_ns"].to_numpy(), upto, times, larger)
        hit = index >= 0
        found_query.append(mine["query"].filter(pl.Series(hit)))
        found_name.append(ranges["name"].gather(index[hit]))
    if not found_query:
        return pl.Series("nvtx", [None] * queries.height, dtype=pl.Categorical)
    found = pl.DataFrame({"query": pl.concat(found_query), "nvtx": pl.concat(found_name)})
    return queries.join(found, on="query", how="left", maintain_order="left")["nvtx"]


def _ranges_by_thread(trace: Trace) -> dict[object, tuple[pl.DataFrame, Ints]]:
    """Per thread, its ranges in nesting order (outer before inner), and each one's link to the
    nearest before it that ends later (`intervals.larger_before`)."""

    def compute() -> dict[object, tuple[pl.DataFrame, Ints]]:
        parts = (
            trace.table("nvtx_ranges")
            .filter(pl.col("kind") != "mark")
            .select("global_tid", "start_ns", "end_ns", "name")
            .partition_by("global_tid", as_dict=True, maintain_order=True, include_key=False)
        )
        result: dict[object, tuple[pl.DataFrame, Ints]] = {}
        for (tid,), part in parts.items():
            ties = (part["start_ns"].diff() == 0) & (part["end_ns"].diff() > 0)
            nested = (
                part.sort("start_ns", "end_ns", descending=[False, True], maintain_order=True)
                if ties.any()
                else part
            )
            result[tid] = nested, intervals.larger_before(nested["end_ns"].to_numpy())
        return result

    return trace.once("host.ranges_by_thread", compute, whole_trace=True)
