"""All work of all GPUs as one frame: kernels, whole graphs, copies and memsets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.ids import pid_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nsys_deepprof.trace import Trace

COMMUNICATION_PREFIXES = ("nccl", "nvshmem")

# Beyond so many pairs of process and device a join is the faster way to number GPUs.
MAX_COMPARED_GPUS = 16

LANE_KEYS = ["global_pid", "device_id", "context_id", "stream_id"]
_COMMON = [*LANE_KEYS, "start_ns", "end_ns", "correlation_id"]


def device_ops(trace: Trace) -> pl.DataFrame:
    """Every device operation of the whole trace, sorted by (gpu, start_ns).

    Columns: gpu i64, global_pid i64, pid i64, device_id i32, context_id i32, stream_id i32 (null
    for unified-memory migrations), start_ns, end_ns i64, correlation_id i64, op ('kernel',
    'graph', 'memcpy', 'memset'), state ('compute', 'comm', 'copy', 'memset'), name.
    """
    return trace.once("device_ops", lambda: _device_ops(trace), whole_trace=True)


def _device_ops(trace: Trace) -> pl.DataFrame:
    def label(op: str, state: str) -> list[pl.Expr]:
        return [
            pl.lit(op, pl.Categorical).alias("op"),
            pl.lit(state, pl.Categorical).alias("state"),
        ]

    kernels = trace.table("kernels")
    comm = communication_names(kernels["name"], trace.comm_patterns)
    state = (
        pl.when(pl.col("name").is_in(comm.implode()))
        .then(pl.lit("comm"))
        .otherwise(pl.lit("compute"))
    )
    parts = [
        kernels.select(
            *_COMMON,
            pl.lit("kernel", pl.Categorical).alias("op"),
            state.cast(pl.Categorical).alias("state"),
            "name",
        ),
        whole_graphs(trace).select(
            *_COMMON,
            *label("graph", "compute"),
            pl.format("CUDA graph {}", pl.col("graph_id").cast(pl.String).fill_null("?"))
            .cast(pl.Categorical)
            .alias("name"),
        ),
        trace.table("memcpys").select(
            *_COMMON,
            *label("memcpy", "copy"),
            ("Memcpy " + pl.col("kind").cast(pl.String)).cast(pl.Categorical).alias("name"),
        ),
        trace.table("memsets").select(
            *_COMMON,
            *label("memset", "memset"),
            pl.lit("Memset", pl.Categorical).alias("name"),
        ),
    ]
    return in_gpu_order(
        with_gpu(pl.concat(parts), trace).select(
            "gpu", "global_pid", "pid", *LANE_KEYS[1:], *_COMMON[4:], "op", "state", "name"
        )
    )


def whole_graphs(trace: Trace) -> pl.DataFrame:
    """The rows of `graph_launches` whose node kernels have no rows of their own: with both, the
    two granularities would count the same work twice."""
    graphs = trace.table("graph_launches")
    if graphs.height == 0:
        return graphs
    nodes = trace.table("kernels").filter(pl.col("graph_node_id").is_not_null())
    return graphs.join(
        nodes, on=["global_pid", "correlation_id"], how="anti", maintain_order="left"
    )


def with_gpu(frame: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """`frame` (with global_pid, device_id) plus the columns gpu and pid; order is kept."""
    known = trace.table("gpus").select("global_pid", "device_id", "gpu")
    if known.height > MAX_COMPARED_GPUS:
        frame = frame.join(
            known,
            on=["global_pid", "device_id"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
    else:
        # A few comparisons of whole columns take a tenth of the time of a join.
        number = pl.lit(None, pl.Int64)
        for process, device, gpu in known.iter_rows():
            here = pl.col("global_pid").eq_missing(process) & pl.col("device_id").eq_missing(device)
            number = pl.when(here).then(pl.lit(gpu, pl.Int64)).otherwise(number)
        frame = frame.with_columns(number.alias("gpu"))
    return frame.with_columns(pid_of(pl.col("global_pid")).alias("pid"))


def in_gpu_order(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` sorted by (gpu, start_ns); rows that are equal in both keep their order.

    What is sorted by start already, or has one GPU only, is not sorted again: most frames are.
    """
    if not frame["start_ns"].is_sorted():
        frame = frame.sort("start_ns", maintain_order=True)
    gpus = frame["gpu"].unique().sort()
    if len(gpus) < 2:
        return frame
    return pl.concat(frame.filter(pl.col("gpu").eq_missing(gpu)) for gpu in gpus)


def by_gpu(frame: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """The rows of each GPU of a frame sorted by gpu, without copying them."""
    first = 0
    for gpu, rows in frame["gpu"].rle().struct.unnest().select("value", "len").iter_rows():
        if gpu is not None:
            yield gpu, frame.slice(first, rows)
        first += rows


def by_lane(rows: pl.DataFrame, keys: Sequence[str] = LANE_KEYS) -> list[pl.DataFrame]:
    """The rows of each lane (process, device, context and stream, or other `keys`), in the order
    of their first rows."""
    if rows.height == 0:
        return []
    varying = varying_keys(rows, keys)
    return rows.partition_by(varying, maintain_order=True) if varying else [rows]


def varying_keys(rows: pl.DataFrame, keys: Sequence[str] = LANE_KEYS) -> list[str]:
    """Those of `keys` that do not have one value throughout: the others cost time and part
    nothing."""
    return [key for key in keys if rows[key].null_count() or rows[key].min() != rows[key].max()]


def communication_names(names: pl.Series, patterns: tuple[str, ...] = ()) -> pl.Series:
    """The distinct kernel names that are communication.

    A demangled name counts, in any case and after a leading `void `, when it starts with one of
    `COMMUNICATION_PREFIXES` or matches one of the user's regular expressions.
    """
    distinct = names.unique().drop_nulls()
    starts = "|".join(re.escape(p) for p in COMMUNICATION_PREFIXES)
    rules = "|".join([f"^(?:void )?(?:{starts})", *(f"(?:{p})" for p in patterns)])
    return distinct.filter(distinct.cast(pl.String).str.contains(f"(?i){rules}"))
