"""Communication between GPUs: how much of it hides behind compute, and who waits for whom."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof import intervals
from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import analysed_windows, gpu_states
from nsys_deepprof.analyses.iteration_of import found_iterations
from nsys_deepprof.device import device_ops
from nsys_deepprof.result import Result
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "pid": pl.Int64(),
    "operation": pl.String(),
    "name": pl.Categorical(),
    "calls": pl.Int64(),
    "total_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "overlapped_ns": pl.Int64(),
    "exposed_share": pl.Float64(),
    "mean_ns": pl.Float64(),
    "median_ns": pl.Float64(),
    "min_ns": pl.Int64(),
    "max_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
}

_OPERATION = re.compile(
    r"(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll|AlltoAll)",
    re.IGNORECASE,
)
COLLECTIVES = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce")
"""Operations that every rank takes part in."""


@with_context
def communication(trace: Trace) -> Result:
    """One row per GPU and communication kernel, the most exposed first.

    Columns: gpu, pid, operation (AllReduce, ...; null where the name does not tell), name, calls,
    total_ns (durations), exposed_ns (the part during which no compute kernel runs on that GPU),
    overlapped_ns (the rest), exposed_share (exposed_ns over the GPU's analysed window), mean_ns,
    median_ns, min_ns, max_ns, wait_ns: for a collective that every GPU of the trace runs equally
    often, the k-th of each GPU are taken together; the shortest is what it costs, the rest of each
    is waiting for the others. Null for other operations and for one GPU.

    Extra keys: `gpus`: a frame of gpu, comm_ns (union of all communication), exposed_ns (the GPU
    state comm), overlapped_ns, exposed_share, wait_ns; `iterations`: a frame of gpu, iteration,
    comm_ns, exposed_ns, overlapped_ns; `straggler`: the GPU that waits least, which the others
    wait for, or null.
    """
    ops = device_ops(trace)
    whole = ops.filter(ops["state"] == "comm")
    comm = in_windows(whole, trace.windows)
    comm = comm.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        pl.Series("exposed_ns", _exposed_ns(trace, comm)),
        _operations(comm["name"]),
    ).with_columns(_wait_ns(comm))
    windows = {gpu: intervals.total(w) for gpu, w in analysed_windows(trace).items()}
    spans = pl.DataFrame(
        {"gpu": list(windows), "window_ns": list(windows.values())},
        schema={"gpu": pl.Int64, "window_ns": pl.Int64},
    )
    duration = pl.col("duration_ns")
    frame = (
        comm.group_by("gpu", "pid", "operation", "name", maintain_order=True)
        .agg(
            pl.len().alias("calls"),
            duration.sum().alias("total_ns"),
            pl.col("exposed_ns").sum(),
            duration.mean().alias("mean_ns"),
            duration.median().alias("median_ns"),
            duration.min().alias("min_ns"),
            duration.max().alias("max_ns"),
            _sum_if_known("wait_ns"),
        )
        .join(spans, on="gpu", how="left", maintain_order="left")
        .with_columns(
            (pl.col("total_ns") - pl.col("exposed_ns")).alias("overlapped_ns"),
            pl.when(pl.col("window_ns") > 0)
            .then(pl.col("exposed_ns") / pl.col("window_ns"))
            .alias("exposed_share"),
        )
        .sort("exposed_ns", "gpu", descending=[True, False], maintain_order=True)
    )
    # Time is clipped to the window, so what began before it counts; rows belong where they begin.
    by_gpu = _by_gpu(trace, whole, comm, spans)
    extra: dict[str, Any] = {
        "gpus": by_gpu,
        "iterations": _by_iteration(trace, whole),
        "straggler": _straggler(by_gpu),
    }
    notes = []
    if comm.height == 0:
        traced = trace.has("kernels")
        notes.append(
            "No communication kernels in the analysed time."
            if traced
            else "No kernels were traced."
        )
    return Result(
        "communication",
        frame.select(pl.col(c).cast(t) for c, t in SCHEMA.items()),
        extra,
        tuple(notes),
    )


def _sum_if_known(column: str) -> pl.Expr:
    known = pl.col(column).is_not_null().any()
    return pl.when(known).then(pl.col(column).sum()).alias(column)


def _operations(names: pl.Series) -> pl.Series:
    distinct = names.unique().drop_nulls()
    found = [_OPERATION.search(str(name)) for name in distinct.cast(pl.String)]
    known = pl.DataFrame(
        {
            "name": distinct,
            "operation": pl.Series([m and m[1] for m in found], dtype=pl.String),
        }
    )
    return names.to_frame("name").join(known, on="name", how="left", maintain_order="left")[
        "operation"
    ]


def _exposed_ns(trace: Trace, comm: pl.DataFrame) -> intervals.Ints:
    exposed = (comm["end_ns"] - comm["start_ns"]).to_numpy(writable=True)
    gpus, starts, ends = (comm[c].to_numpy() for c in ("gpu", "start_ns", "end_ns"))
    for gpu, states in gpu_states(trace).items():
        mine = np.flatnonzero(gpus == gpu)
        exposed[mine] -= intervals.covered_between(states.layers[0], starts[mine], ends[mine])
    return exposed


def _wait_ns(comm: pl.DataFrame) -> pl.Expr:
    """Duration over the shortest of the same collective; null where ranks cannot be matched."""
    gpus = comm["gpu"].n_unique()
    turn = pl.int_range(pl.len()).over("gpu", "name")
    matched = (
        (gpus > 1)
        & pl.col("operation").is_in(COLLECTIVES)
        & (pl.col("gpu").n_unique().over("name") == gpus)
        & (pl.len().over("gpu", "name").n_unique().over("name") == 1)
    )
    shortest = pl.col("duration_ns").min().over("name", turn)
    return pl.when(matched).then(pl.col("duration_ns") - shortest).alias("wait_ns")


def _by_gpu(
    trace: Trace, whole: pl.DataFrame, comm: pl.DataFrame, spans: pl.DataFrame
) -> pl.DataFrame:
    waits = comm.group_by("gpu").agg(_sum_if_known("wait_ns"))
    rows = []
    for gpu, window in analysed_windows(trace).items():
        totals = _totals(trace, whole, gpu, *window)
        rows.append({"gpu": gpu, **{k: int(v.sum()) for k, v in totals.items()}})
    schema = dict.fromkeys(("gpu", "comm_ns", "exposed_ns", "overlapped_ns"), pl.Int64)
    return (
        pl.DataFrame(rows, schema=schema)
        .join(spans, on="gpu", how="left", maintain_order="left")
        .join(waits, on="gpu", how="left", maintain_order="left")
        .select(
            *schema,
            pl.when(pl.col("window_ns") > 0)
            .then(pl.col("exposed_ns") / pl.col("window_ns"))
            .alias("exposed_share"),
            "wait_ns",
        )
    )


def _totals(
    trace: Trace, comm: pl.DataFrame, gpu: int, starts: intervals.Ints, ends: intervals.Ints
) -> dict[str, intervals.Ints]:
    """Communication of a GPU within intervals, by whether compute runs beside it."""
    mine = comm.filter(pl.col("gpu") == gpu)
    union = intervals.union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
    compute = gpu_states(trace)[gpu].layers[0]
    whole = intervals.covered_between(union, starts, ends)
    hidden = intervals.covered_between(intervals.intersect(union, compute), starts, ends)
    return {"comm_ns": whole, "exposed_ns": whole - hidden, "overlapped_ns": hidden}


def _by_iteration(trace: Trace, comm: pl.DataFrame) -> pl.DataFrame:
    columns = ("gpu", "iteration", "comm_ns", "exposed_ns", "overlapped_ns")
    frames = [pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))]
    if comm.height == 0:
        return frames[0]
    for (gpu,), mine in found_iterations(trace).group_by("gpu", maintain_order=True):
        assert isinstance(gpu, int)
        starts, ends = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
        totals = _totals(trace, comm, gpu, starts, ends)
        frames.append(
            pl.DataFrame({"gpu": mine["gpu"], "iteration": mine["index"], **totals}).select(columns)
        )
    return pl.concat(frames)


def _straggler(by_gpu: pl.DataFrame) -> int | None:
    known = by_gpu.filter(pl.col("wait_ns").is_not_null())
    if known.height < 2 or known["wait_ns"].max() == known["wait_ns"].min():
        return None
    gpu = known.sort("wait_ns", "gpu")["gpu"][0]
    return int(gpu)
