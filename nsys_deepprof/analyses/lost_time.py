"""Every nanosecond in which a GPU is idle or only copies, each charged to exactly one cause.

The causes here are what a programmer would change. A gap after a copy that the host waited for is
charged to that copy; what a gap spends in loading code is charged to loading, whatever else held
up the rest of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import intervals
from nsys_deepprof.analyses.gaps import gaps_with_rows
from nsys_deepprof.analyses.gpu_state import analysed_windows, gpu_states
from nsys_deepprof.codes import UNIFIED_MEMORY_KINDS
from nsys_deepprof.copies import DEVICE_ONLY_KINDS, SMALL_BYTES, costed_copies, train_of_copy
from nsys_deepprof.device import device_ops
from nsys_deepprof.host import pageable_side

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

KINDS = (
    "module_loading",
    "allocation",
    "profiler",
    "readback",
    "copy_train",
    "sync_copy",
    "pageable_copy",
    "awaited_copy",
    "exposed_copy",
    "device_copy",
    "peer_copy",
    "migration",
    "synchronise",
    "os_wait",
    "cuda_call",
    "slow_call",
    "host_late",
    "dependency",
    "launch_latency",
    "unknown",
)

HOST_STALL_NS = 1_000_000
"""Host work of at least this length after a synchronise is what the GPU waits for; the wait itself
only keeps the two from overlapping."""

SLOW_CALL_NS = 100_000
"""A launching call that takes this long, and work that starts this long after its call returned,
is a cause of its own: a launch takes microseconds."""

DEPENDENCY_NS = 10_000
"""Queued work that starts this much late waits for other work; below, it is launch latency."""

SCHEMA: dict[str, pl.DataType] = {
    "kind": pl.Enum(KINDS),
    "gpu": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "event_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "copy_ns": pl.Int64(),
    "prev_op": pl.Categorical(),
    "next_op": pl.Categorical(),
    "what": pl.Categorical(),
    "nvtx": pl.Categorical(),
    "iteration": pl.Int64(),
    "direction": pl.Categorical(),
    "bytes": pl.Int64(),
    "copy_time_ns": pl.Int64(),
    "host_ns": pl.Int64(),
}


def lost_time(trace: Trace) -> pl.DataFrame:
    """One row per piece of lost time in the analysed windows; pieces never overlap.

    Per GPU, idle_ns adds up to its idle time and copy_ns to its exposed-copy time. start_ns, end_ns
    are those of the gap or copy that the piece is part of; event_ns is the start of what it is
    charged to, so that a copy and the gap behind it are one event; prev_op, next_op are around the
    event. `what` is the call or overhead that the piece is charged to; bytes and copy_time_ns are
    the copy's size and duration; host_ns is how long the copy held the host (null: not known).
    """
    return trace.once("lost_time", lambda: _lost_time(trace))


def _lost_time(trace: Trace) -> pl.DataFrame:
    copies = _classed_copies(trace)
    parts = [*_gap_pieces(trace, copies), _copy_pieces(trace, copies)]
    typed = [
        part.with_columns(
            pl.lit(None, dtype).alias(c) for c, dtype in SCHEMA.items() if c not in part.columns
        ).select(pl.col(c).cast(t) for c, t in SCHEMA.items())
        for part in parts
        if part.height
    ]
    return pl.concat(typed) if typed else pl.DataFrame(schema=SCHEMA)


def _kind(name: str) -> pl.Expr:
    return pl.lit(name, SCHEMA["kind"])


def _classed_copies(trace: Trace) -> pl.DataFrame:
    """`costed_copies` plus `loss` (one of `KINDS`), `train`, and prev_op, next_op around it."""
    ops = device_ops(trace)
    # Copies are in the order of device_ops.
    row = (ops["op"] == "memcpy").arg_true().cast(pl.Int64)
    copies = costed_copies(trace).with_columns(
        train_of_copy(trace).alias("train"),
        _name_at(ops, row - 1, row).alias("prev_op"),
        _name_at(ops, row + 1, row).alias("next_op"),
    )
    kind = pl.col("kind").cast(pl.String)
    has = pl.col("blocking").list.contains
    small_train = pl.col("bytes").mean().over("train") < SMALL_BYTES
    rules = (
        ("migration", kind.is_in(UNIFIED_MEMORY_KINDS)),
        ("peer_copy", kind == "PtoP"),
        ("device_copy", kind.is_in(DEVICE_ONLY_KINDS)),
        ("readback", (kind == "DtoH") & pl.col("small") & (pl.col("blocking").list.len() > 0)),
        ("copy_train", pl.col("train").is_not_null() & small_train),
        ("sync_copy", has("sync_api")),
        ("pageable_copy", pageable_side()),
        ("awaited_copy", has("awaited")),
    )
    loss = _kind("exposed_copy")
    for name, applies in reversed(rules):
        loss = pl.when(applies.fill_null(False)).then(_kind(name)).otherwise(loss)
    return copies.with_columns(loss.alias("loss"))


def _name_at(ops: pl.DataFrame, row: pl.Series, of: pl.Series) -> pl.Series:
    """The names of operations at `row`, null where that is no row of the same GPU as `of`."""
    there = row.set((row < 0) | (row >= ops.height), None)
    same_gpu = ops["gpu"].gather(there).eq_missing(ops["gpu"].gather(of))
    return ops["name"].gather(there.set(~same_gpu, None))


def _copy_pieces(trace: Trace, copies: pl.DataFrame) -> pl.DataFrame:
    """Each nanosecond of exposed copy goes to the copy that was the first to cover it, and to a
    copy inside the device only where no other copy runs: it waits for the slower ones."""
    lost = np.zeros(copies.height, np.int64)
    inside = copies["kind"].cast(pl.String).is_in(DEVICE_ONLY_KINDS).to_numpy()
    gpus, starts, ends = (copies[c].to_numpy() for c in ("gpu", "start_ns", "end_ns"))
    for gpu, window in analysed_windows(trace).items():
        charged = gpu_states(trace)[gpu].kernels
        for chosen in (~inside, inside):
            mine = np.flatnonzero((gpus == gpu) & chosen)
            if len(mine) == 0:
                continue
            reach = np.maximum.accumulate(ends[mine])
            fresh = np.maximum(starts[mine], np.concatenate((starts[mine][:1], reach[:-1])))
            until = np.maximum(ends[mine], fresh)
            both = intervals.union(
                np.concatenate((charged[0], starts[mine])), np.concatenate((charged[1], ends[mine]))
            )
            within = (
                (both, charged)
                if trace.windows is None
                else (intervals.intersect(both, window), intervals.intersect(charged, window))
            )
            covered = [intervals.covered_between(layer, fresh, until) for layer in within]
            lost[mine] = covered[0] - covered[1]
            charged = both
    return copies.select(
        pl.col("loss").alias("kind"),
        *("gpu", "start_ns", "end_ns", "prev_op", "next_op", "nvtx", "iteration", "bytes"),
        pl.col("start_ns").alias("event_ns"),
        pl.col("kind").alias("direction"),
        pl.lit(0).alias("idle_ns"),
        pl.Series("copy_ns", lost),
        pl.coalesce("migration_cause", "wait_api", "api").alias("what"),
        pl.col("duration_ns").alias("copy_time_ns"),
        pl.col("host_blocked_ns").alias("host_ns"),
    ).filter(pl.col("copy_ns") > 0)


_NEITHER = pl.lit(False)

HOLDING_COPIES = ("readback", "copy_train", "sync_copy", "pageable_copy", "awaited_copy")
"""Copies that hold the host, so that a gap behind them is theirs."""


def _gap_pieces(trace: Trace, copies: pl.DataFrame) -> list[pl.DataFrame]:
    """Code loading, allocation, the profiler, slow calls, and the rest of each gap."""
    every = _with_neighbours(trace, copies)
    loading = pl.col("load_ns") + pl.col("driver_load_ns")
    profiling = pl.col("profiler_ns") - pl.col("driver_load_ns") - pl.col("queue_full_ns")
    in_call = pl.col("launch_call_ns")
    after_call = pl.col("launch_ns") - in_call
    apart = ("loading", "alloc_ns", "profiling", "in_call", "after_call")
    gaps = (
        every.with_columns(
            host_side=pl.col("duration_ns")
            - pl.sum_horizontal("launch_ns", "device_wait_ns", "unknown_ns"),
            loading=loading,
            profiling=profiling,
            in_call=pl.when(in_call >= SLOW_CALL_NS).then(in_call).otherwise(0),
            after_call=pl.when(after_call >= SLOW_CALL_NS).then(after_call).otherwise(0),
        )
        .with_columns(rest=pl.col("duration_ns") - pl.sum_horizontal(apart))
        .with_columns(kind=_kind_of_rest(every))
        # Lazy, so that each piece copies only what it needs of the many columns.
        .lazy()
    )

    def piece(
        idle: str,
        kind: pl.Expr,
        what: pl.Expr,
        *,
        before: pl.Expr = _NEITHER,
        after: pl.Expr = _NEITHER,
    ) -> pl.DataFrame:
        # Charged to the copy before or after it, a piece is one event with that copy.
        def of_copy(column: str) -> pl.Expr:
            return pl.when(before).then(f"{column}_before").when(after).then(f"{column}_after")

        return (
            gaps.filter(pl.col(idle) > 0)
            .select(
                kind.alias("kind"),
                *("gpu", "start_ns", "end_ns", "next_op", "iteration"),
                pl.coalesce(of_copy("copy_start"), "start_ns").alias("event_ns"),
                pl.when(before).then("op_before_copy").otherwise("prev_op").alias("prev_op"),
                of_copy("bytes").alias("bytes"),
                of_copy("direction").alias("direction"),
                # Without any host time in the gap, it is the launch that tells the place.
                pl.when(pl.col("host_side") > 0).then("nvtx").otherwise("next_nvtx").alias("nvtx"),
                pl.col(idle).alias("idle_ns"),
                pl.lit(0).alias("copy_ns"),
                what.alias("what"),
            )
            .collect()
        )

    def named(*causes: str) -> pl.Expr:
        return pl.when(pl.col("cause").is_in(causes)).then("cause_name")

    before_copy = pl.col("loss_after").is_in(HOLDING_COPIES)
    slow_kind = (
        pl.when(before_copy)
        .then("loss_after")
        # Code is loaded once: a kernel whose later launches are as slow is not being loaded.
        .when(pl.col("first_of_name") & ((pl.col("in_call") > 0).sum().over("next_op") == 1))
        .then(_kind("module_loading"))
        .otherwise(_kind("slow_call"))
    )
    return [
        piece("loading", _kind("module_loading"), named("load", "profiler")),
        piece("alloc_ns", _kind("allocation"), named("alloc")),
        piece("profiling", _kind("profiler"), named("profiler")),
        piece("in_call", slow_kind, pl.col("next_api"), after=before_copy),
        piece("after_call", _kind("dependency"), pl.col("next_api")),
        piece(
            "rest",
            pl.col("kind"),
            pl.when(pl.col("kind").is_in(["os_wait", "cuda_call"]))
            .then(named("os", "api"))
            .when(pl.col("kind") == "dependency")
            .then("waits_for")
            .otherwise("drained_by"),
            before=pl.col("kind").is_in(HOLDING_COPIES),
        ),
    ]


def _with_neighbours(trace: Trace, copies: pl.DataFrame) -> pl.DataFrame:
    """Every gap plus what is known of the copy before it (columns ending in _before, and
    op_before_copy) and of the copy behind it (_after), null where those are no copies, whether the
    kernel behind it is the first of its name in its process (first_of_name), and the stream that it
    waits for in words (waits_for)."""
    ops = device_ops(trace)
    gaps = gaps_with_rows(trace)
    # Copies are in the order of device_ops.
    is_copy = ops["op"] == "memcpy"
    copy_of_op = pl.select(pl.when(is_copy).then(is_copy.cast(pl.UInt32).cum_sum() - 1)).to_series()
    facts = {
        "copy_start": "start_ns",
        "loss": "loss",
        "train": "train",
        "direction": "kind",
        "bytes": "bytes",
    }
    columns: list[pl.Series | pl.Expr] = []
    for side, row in (("before", "prev_row"), ("after", "next_row")):
        named = {f"{name}_{side}": copies[c] for name, c in facts.items()}
        if side == "before":
            named["op_before_copy"] = copies["prev_op"]
        if copies.height:
            copy = copy_of_op.gather(gaps[row])
            columns += [values.gather(copy).alias(name) for name, values in named.items()]
        else:
            columns += [pl.lit(None, values.dtype).alias(name) for name, values in named.items()]
    one_process = ops["global_pid"].min() == ops["global_pid"].max()
    kernel = pl.col("name") if one_process else pl.struct("global_pid", "name")
    is_first = ops.select(kernel.is_first_distinct()).to_series() & (ops["op"] == "kernel")
    columns.append(is_first.gather(gaps["next_row"]).alias("first_of_name"))
    waits = gaps["waits_for_stream"]
    stream = pl.format("stream {}", waits) if waits.null_count() < len(waits) else pl.lit(None)
    return gaps.with_columns(*columns, stream.cast(pl.Categorical).alias("waits_for"))


def _kind_of_rest(gaps: pl.DataFrame) -> pl.Expr:
    rest = pl.col("rest")
    working = pl.col("host_ns") + pl.col("os_ns")
    stall = (working >= HOST_STALL_NS) & (working * 2 >= rest)
    # By its name a memset can be synchronous, but of device memory it does not wait.
    waits = gaps["drained_by"].unique().cast(pl.String)
    memsets = waits.filter(waits.str.contains("Memset")).to_list()
    after_wait = pl.col("drained_by").is_not_null() & ~pl.col("drained_by").is_in(memsets)
    waited = (after_wait & ~stall) | (pl.col("sync_ns") * 2 >= rest)
    same_train = (pl.col("loss_before") == "copy_train") & (
        pl.col("train_before") == pl.col("train_after")
    )
    migrations = [f"Memcpy {kind}" for kind in UNIFIED_MEMORY_KINDS]
    between_migrations = pl.all_horizontal(pl.col("prev_op", "next_op").is_in(migrations))
    rules = (
        # No call issues a migration: the host or the device touched memory that was elsewhere.
        ("migration", between_migrations),
        ("unknown", pl.col("unknown_ns") > 0),
        ("copy_train", same_train),
        ("dependency", pl.col("device_wait_ns") >= DEPENDENCY_NS),
        ("launch_latency", pl.col("device_wait_ns") > 0),
        *((k, waited & (pl.col("loss_before") == k)) for k in HOLDING_COPIES),
        ("synchronise", waited),
        ("os_wait", pl.col("os_ns") * 2 >= rest),
        ("cuda_call", pl.col("api_ns") * 2 >= rest),
    )
    kind = _kind("host_late")
    for name, applies in reversed(rules):
        kind = pl.when(applies.fill_null(False)).then(_kind(name)).otherwise(kind)
    return kind
