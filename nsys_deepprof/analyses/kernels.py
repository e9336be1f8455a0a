"""Kernels by name: how often, how long, how much of the GPU, and how they were launched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof import host
from nsys_deepprof.alone import alone_ns
from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import analysed_windows
from nsys_deepprof.device import by_gpu, device_ops
from nsys_deepprof.errors import UsageError
from nsys_deepprof.intervals import total
from nsys_deepprof.result import Result
from nsys_deepprof.units import format_ns, format_share
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsys_deepprof.trace import Trace

SCHEMA: dict[str, pl.DataType] = {
    "name": pl.Categorical(),
    "short_name": pl.Categorical(),
    "calls": pl.Int64(),
    "total_ns": pl.Int64(),
    "share": pl.Float64(),
    "mean_ns": pl.Float64(),
    "median_ns": pl.Float64(),
    "min_ns": pl.Int64(),
    "max_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "gpu_share_exposed": pl.Float64(),
    "launches": pl.Int64(),
    "api_mean_ns": pl.Float64(),
    "queue_mean_ns": pl.Float64(),
    "queued_calls": pl.Int64(),
    "short_calls": pl.Int64(),
}

OTHER_GROUP = "(no group)"


@with_context
def kernels(
    trace: Trace, *, short_names: bool = False, groups: Mapping[str, str] | None = None
) -> Result:
    """One row per kernel name, the one with the most time first.

    By full demangled name; `short_names` groups by the name without arguments (`name` is then
    that). `groups` maps a group's name to a regular expression on the full name; a kernel belongs
    to the first that matches.

    Columns: name, short_name, calls, total_ns, share (of the summed time of all kernels and
    whole-graph executions), mean_ns, median_ns, min_ns, max_ns, exposed_ns (time in which kernels
    of this name run and nothing else does on their GPU), gpu_share_exposed (exposed_ns as a share
    of the analysed time of all GPUs), launches (calls whose launch is known), api_mean_ns (length
    of the launch call), queue_mean_ns (kernel start - call end where positive, else 0),
    queued_calls (queue time above 0), short_calls (kernels that run for less time than their
    launch call took). The launch columns are null where no launch is known.

    Extra keys: `kernel_ns`, `graph_ns` (summed durations), `window_ns`, `graphs` (whole-graph
    executions: graph, calls, total_ns, share) and, with `groups`, `groups` (group, calls, total_ns,
    share, exposed_ns, gpu_share_exposed) and `summary`, the same in words.

    Raises UsageError for a bad expression.
    """
    every = host.with_calls(trace, "kernels").with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns")
    )
    if short_names:
        every = every.with_columns(pl.coalesce("short_name", "name").alias("name"))
    rows = in_windows(every, trace.windows)
    graphs = in_windows(_is_op(device_ops(trace), "graph"), trace.windows).with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns")
    )
    kernel_ns, graph_ns = int(rows["duration_ns"].sum()), int(graphs["duration_ns"].sum())
    busy_ns = kernel_ns + graph_ns
    window_ns = sum(total(w) for w in analysed_windows(trace).values())
    frame = _with_shares(
        _by_name(rows).join(
            _exposed(trace, every["name"]), on="name", how="left", maintain_order="left"
        ),
        busy_ns,
        window_ns,
    )
    extra: dict[str, Any] = {
        "kernel_ns": kernel_ns,
        "graph_ns": graph_ns,
        "window_ns": window_ns,
        "graphs": _graphs(graphs, busy_ns),
    }
    if groups:
        extra["groups"] = _groups(trace, every, groups, busy_ns, window_ns)
        extra["summary"] = [_group_line(row) for row in extra["groups"].iter_rows(named=True)]
    return Result(
        "kernels",
        frame.select(pl.col(c).cast(t) for c, t in SCHEMA.items()),
        extra,
        tuple(_notes(trace, rows, graphs)),
    )


def _by_name(rows: pl.DataFrame) -> pl.DataFrame:
    duration = pl.col("duration_ns")
    call_ns = pl.col("call_end_ns") - pl.col("call_start_ns")
    # A kernel before its own call: two clocks disagree, and there is no delay to tell.
    queue_ns = pl.when(pl.col("start_ns") >= pl.col("call_start_ns")).then(
        (pl.col("start_ns") - pl.col("call_end_ns")).clip(lower_bound=0)
    )
    known = pl.col("call_start_ns").is_not_null()
    any_known = known.any()
    return (
        rows.group_by("name", maintain_order=True)
        .agg(
            pl.col("short_name").drop_nulls().first(),
            pl.len().cast(pl.Int64).alias("calls"),
            duration.sum().alias("total_ns"),
            duration.mean().alias("mean_ns"),
            duration.median().alias("median_ns"),
            duration.min().alias("min_ns"),
            duration.max().alias("max_ns"),
            known.sum().cast(pl.Int64).alias("launches"),
            call_ns.mean().alias("api_mean_ns"),
            queue_ns.mean().alias("queue_mean_ns"),
            pl.when(any_known).then((queue_ns > 0).sum()).alias("queued_calls"),
            pl.when(any_known).then((duration < call_ns).sum()).alias("short_calls"),
        )
        .sort("total_ns", descending=True, maintain_order=True)
    )


def _exposed(trace: Trace, keys: pl.Series) -> pl.DataFrame:
    """Per key, the time in which kernels with that key have their GPU to themselves.

    `keys` has one value per row of `host.with_calls(trace, "kernels")`.
    """
    ops = device_ops(trace)
    distinct = keys.unique(maintain_order=True)
    code = keys.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    first = distinct.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    # No key at all is the last place of the table, where -1 points to.
    label_of_code = np.zeros(int(first.max(initial=-1)) + 2, np.int64)
    label_of_code[first] = np.arange(len(first))
    label = label_of_code[code]
    if len(keys) < ops.height:
        # Whatever is not a kernel is one label more: it spoils being alone and is not reported.
        labels = np.full(ops.height, len(distinct), np.int64)
        labels[(ops["op"] == "kernel").to_numpy()] = label
        label = labels
    alone = np.zeros(len(distinct) + 1, np.int64)
    windows = analysed_windows(trace)
    for gpu, mine in by_gpu(ops.select("gpu", "start_ns", "end_ns", pl.lit(pl.Series(label)))):
        if gpu in windows:
            start_ns, end_ns, labelled = (column.to_numpy() for column in mine.drop("gpu"))
            part = alone_ns(start_ns, end_ns, labelled, windows[gpu])
            alone[: len(part)] += part
    return pl.DataFrame({keys.name: distinct, "exposed_ns": alone[: len(distinct)]})


def _with_shares(frame: pl.DataFrame, busy_ns: int, window_ns: int) -> pl.DataFrame:
    return frame.with_columns(
        pl.when(busy_ns > 0).then(pl.col("total_ns") / busy_ns).alias("share"),
        pl.when(window_ns > 0).then(pl.col("exposed_ns") / window_ns).alias("gpu_share_exposed"),
    )


def _is_op(ops: pl.DataFrame, op: str) -> pl.DataFrame:
    return ops.filter(pl.col("op") == op)


def _graphs(graphs: pl.DataFrame, busy_ns: int) -> pl.DataFrame:
    return (
        graphs.group_by(pl.col("name").alias("graph"), maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("calls"), pl.col("duration_ns").sum().alias("total_ns"))
        .with_columns(
            pl.when(busy_ns > 0).then(pl.col("total_ns") / busy_ns).alias("share"),
        )
        .sort("total_ns", descending=True, maintain_order=True)
    )


def _groups(
    trace: Trace,
    every: pl.DataFrame,
    groups: Mapping[str, str],
    busy_ns: int,
    window_ns: int,
) -> pl.DataFrame:
    names = every["name"].unique(maintain_order=True)
    group_of = pl.DataFrame(
        {"name": names, "group": [_group_of(str(n), groups) for n in names.cast(pl.String)]}
    )
    member = every.join(group_of, on="name", how="left", nulls_equal=True, maintain_order="left")
    return _with_shares(
        in_windows(member, trace.windows)
        .group_by("group", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("calls"), pl.col("duration_ns").sum().alias("total_ns"))
        .join(_exposed(trace, member["group"]), on="group", how="left", maintain_order="left"),
        busy_ns,
        window_ns,
    ).sort("total_ns", descending=True, maintain_order=True)


def _group_line(row: dict[str, Any]) -> str:
    return (
        f"{row['group']}: {row['calls']:,} kernels, {format_ns(row['total_ns'])} "
        f"({format_share(row['share'])}), alone on the GPU for {format_ns(row['exposed_ns'])}"
    )


def _group_of(name: str, groups: Mapping[str, str]) -> str:
    for group, pattern in groups.items():
        try:
            if re.search(pattern, name):
                return group
        except re.error as error:
            raise UsageError(f"--group {group}={pattern}", f"not a pattern: {error}") from error
    return OTHER_GROUP


def _notes(trace: Trace, rows: pl.DataFrame, graphs: pl.DataFrame) -> list[str]:
    notes = []
    if rows.height == 0:
        notes.append(
            "No kernels in the analysed time."
            if trace.table("kernels").height
            else "No kernels were traced."
        )
    if graphs.height:
        notes.append(
            f"{graphs.height:,} CUDA-graph executions were traced as a whole: the kernels inside "
            "them have no rows here; their time is in the shares' denominator."
        )
    unknown = rows["call_start_ns"].null_count()
    if unknown and rows.height:
        notes.append(
            f"The launches of {unknown:,} of {rows.height:,} kernels are not in the capture: they "
            "are left out of the launch columns."
        )
    return notes
