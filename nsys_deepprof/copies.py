"""Every memory copy with what it costs: the GPU (exposed time) and the host (blocked time)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import host, intervals
from nsys_deepprof.analyses.gpu_state import gpu_states
from nsys_deepprof.analyses.iteration_of import iteration_of
from nsys_deepprof.codes import UNIFIED_MEMORY_KINDS
from nsys_deepprof.device import device_ops, varying_keys

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

SMALL_BYTES = 64 << 10
"""A copy of fewer bytes is small: its cost is that of issuing it."""

TRAIN_COPIES = 3
TRAIN_COPY_NS = 1_000_000
TRAIN_GAP_NS = 1_000_000
"""A train: at least so many copies of one kind in a row on a stream, each at most so long, with
at most so much time between."""

CLOCKS_NS = 10_000
"""The clocks of host and device are matched no better than this: a synchronise that waited for a
copy may return as much before the copy's recorded end."""

DEVICE_ONLY_KINDS = ("DtoD", "PtoP", "AtoA", "AtoD", "DtoA")
"""Copies that no host memory takes part in: a synchronous call does not wait for them."""

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "context_id": pl.Int32(),
    "stream_id": pl.Int32(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "duration_ns": pl.Int64(),
    "kind": pl.Categorical(),
    "src_kind": pl.Categorical(),
    "dst_kind": pl.Categorical(),
    "bytes": pl.Int64(),
    "throughput_gbps": pl.Float64(),
    "exposed_ns": pl.Int64(),
    "host_blocked_ns": pl.Int64(),
    "awaited_ns": pl.Int64(),
    "blocking": pl.List(pl.String()),
    "small": pl.Boolean(),
    "migration_cause": pl.Categorical(),
    "api": pl.Categorical(),
    "nvtx": pl.Categorical(),
    "iteration": pl.Int64(),
    "call_start_ns": pl.Int64(),
    "call_end_ns": pl.Int64(),
    "call_tid": pl.Int64(),
    "wait_start_ns": pl.Int64(),
    "wait_end_ns": pl.Int64(),
    "wait_api": pl.Categorical(),
}


def costed_copies(trace: Trace) -> pl.DataFrame:
    """Every copy of the whole trace, sorted by (gpu, start_ns).

    throughput_gbps is bytes per ns, null for a duration of 0. exposed_ns is the part during which
    no kernel runs on that GPU. blocking lists 'sync_api', 'pageable', 'awaited'; it is null, as are
    host_blocked_ns and awaited_ns, where the issuing call is unknown. Unified-memory migrations
    have no call and are never blocking: their list is empty and their host times are null.
    wait_* is the synchronise that an awaited copy is waited for with. nvtx is the innermost range
    around the issuing call. Schema: `SCHEMA`.
    """
    return trace.once("costed_copies", lambda: _costed_copies(trace))


def blocking_memset() -> pl.Expr:
    """Whether a memset (with its call's columns) blocks the host: a synchronous one of pinned or
    managed memory. Of device memory it returns at once."""
    host_side = pl.col("mem_kind").cast(pl.String).is_in(["pinned", "managed", "managed_static"])
    return ((pl.col("call_class") == "sync_memset") & host_side).fill_null(False)


def train_of_copy(trace: Trace) -> pl.Series:
    """Per row of `costed_copies`, a number that the copies of one train share; null for no train.

    A train is `TRAIN_COPIES` or more copies of one kind, in a row on one stream with no other work
    between them, each at most `TRAIN_COPY_NS` long and at most `TRAIN_GAP_NS` after the one before.
    """
    return trace.once("train_of_copy", lambda: _train_of_copy(trace), whole_trace=True)


def _train_of_copy(trace: Trace) -> pl.Series:
    lane = ["gpu", "global_pid", "context_id", "stream_id"]
    ops = device_ops(trace)
    keys, at = varying_keys(ops, lane), pl.int_range(pl.len())
    ops = ops.select(
        *lane, "op", "start_ns", "end_ns", "name", (at.over(keys) if keys else at).alias("at")
    )
    copies = (
        ops.filter(pl.col("op") == "memcpy")
        .with_row_index("row")
        .filter(
            pl.col("stream_id").is_not_null()
            & (pl.col("end_ns") - pl.col("start_ns") <= TRAIN_COPY_NS)
        )
        .sort(*lane, "at")
    )
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in [*lane, "name"])
    follows = (
        same
        & (pl.col("at") == pl.col("at").shift(1) + 1)
        & (pl.col("start_ns") - pl.col("end_ns").shift(1) <= TRAIN_GAP_NS)
    ).fill_null(False)
    numbered = copies.select("row", (~follows).cum_sum().alias("train")).filter(
        pl.len().over("train") >= TRAIN_COPIES
    )
    rows = costed_copies(trace).select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
    return rows.join(numbered, on="row", how="left", maintain_order="left")["train"]


def _costed_copies(trace: Trace) -> pl.DataFrame:
    rows = host.with_calls(trace, "memcpys")
    rows = rows.hstack(_waited_for(trace, rows))
    known = pl.col("call_start_ns").is_not_null()
    migration = pl.col("kind").cast(pl.String).is_in(UNIFIED_MEMORY_KINDS)
    device_only = pl.col("kind").cast(pl.String).is_in(DEVICE_ONLY_KINDS)
    sync_api = (pl.col("call_class") == "sync_copy") & ~device_only
    pageable = (pl.col("call_class") == "async_copy") & host.pageable_side()
    awaited = pl.col("wait_start_ns").is_not_null()
    awaited_ns = pl.col("wait_end_ns") - pl.max_horizontal("wait_start_ns", "call_end_ns")
    duration = pl.col("end_ns") - pl.col("start_ns")
    call_ns = pl.col("call_end_ns") - pl.col("call_start_ns")
    none = pl.lit(None, pl.Int64)
    return rows.with_columns(
        duration.alias("duration_ns"),
        pl.when(duration > 0).then(pl.col("bytes") / duration).alias("throughput_gbps"),
        pl.Series("exposed_ns", _exposed_ns(trace, rows)),
        pl.when(known).then(awaited_ns.fill_null(0)).otherwise(none).alias("awaited_ns"),
        pl.when(known)
        .then(
            pl.when(sync_api | pageable).then(call_ns).otherwise(0)
            + pl.when(awaited).then(awaited_ns).otherwise(0)
        )
        .otherwise(none)
        .alias("host_blocked_ns"),
        pl.when(known | migration)
        .then(
            pl.concat_list(
                pl.when(applies.fill_null(False)).then(pl.lit(word))
                for word, applies in (
                    ("sync_api", sync_api),
                    ("pageable", pageable),
                    ("awaited", awaited),
                )
            ).list.drop_nulls()
        )
        .alias("blocking"),
        (pl.col("bytes") < SMALL_BYTES).alias("small"),
        pl.col("call_api").alias("api"),
        host.innermost_ranges(trace, rows["call_tid"], rows["call_start_ns"]).alias("nvtx"),
        iteration_of(trace, rows["gpu"], rows["start_ns"]).alias("iteration"),
    ).select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


def _exposed_ns(trace: Trace, rows: pl.DataFrame) -> intervals.Ints:
    exposed = (rows["end_ns"] - rows["start_ns"]).to_numpy(writable=True)
    gpus, starts, ends = (rows[c].to_numpy() for c in ("gpu", "start_ns", "end_ns"))
    for gpu, states in gpu_states(trace).items():
        mine = np.flatnonzero(gpus == gpu)
        exposed[mine] -= intervals.covered_between(states.kernels, starts[mine], ends[mine])
    return exposed


def _waited_for(trace: Trace, rows: pl.DataFrame) -> pl.DataFrame:
    """Per copy, the synchronise that awaits it: the next call of its thread that can block or that
    launches work, if that is a synchronise and the copy ends within it (give or take `CLOCKS_NS` at
    its end). Null for none."""
    can_block = pl.col("waits") | (
        (pl.col("api_class") == "alloc") & ~pl.col("api").cast(pl.String).str.ends_with("Async")
    )
    launches = pl.col("api_class").is_in(["launch", "graph_launch"])
    threads = rows["call_tid"].unique().drop_nulls().implode()
    barriers = (
        host.api_calls(trace)
        .filter(pl.col("global_tid").is_in(threads) & (can_block | launches))
        .partition_by("global_tid", as_dict=True, maintain_order=True)
    )
    copies = rows.select("call_tid", "call_end_ns", "end_ns").with_row_index("row")
    found = []
    for (tid,), mine in copies.filter(pl.col("call_tid").is_not_null()).group_by("call_tid"):
        theirs = barriers.get((tid,))
        if theirs is None:
            continue
        at = np.searchsorted(theirs["start_ns"].to_numpy(), mine["call_end_ns"].to_numpy())
        exists = at < theirs.height
        following = theirs[at[exists]].select(
            pl.col("start_ns").alias("wait_start_ns"),
            pl.col("end_ns").alias("wait_end_ns"),
            pl.col("api").alias("wait_api"),
            "api_class",
        )
        found.append(
            mine.filter(pl.Series(exists))
            .hstack(following)
            .filter(
                (pl.col("api_class") == "sync")
                & (pl.col("wait_start_ns") <= pl.col("end_ns"))
                & (pl.col("end_ns") <= pl.col("wait_end_ns") + CLOCKS_NS)
            )
            .select("row", "wait_start_ns", "wait_end_ns", "wait_api")
        )
    columns = {"wait_start_ns": pl.Int64, "wait_end_ns": pl.Int64, "wait_api": pl.Categorical}
    empty = pl.DataFrame(schema={"row": pl.UInt32, **columns})
    return (
        copies.select("row")
        .join(pl.concat([empty, *found]), on="row", how="left", maintain_order="left")
        .drop("row")
    )
