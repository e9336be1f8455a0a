"""What takes more than one source table: closing ranges, placing graphs, GPUs, processes, threads.

`scan(table)` gives the rows of an event table as they are so far, in memory or in a file.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof import extract, gpus
from nsys_deepprof.ids import pid_of, tid_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.sources import Source
    from nsys_deepprof.string_ids import StringIds

    Scan = Callable[[str], pl.LazyFrame]

DEVICE_TABLES = ("kernels", "memcpys", "memsets", "graph_launches")
TIMED_TABLES = (*DEVICE_TABLES, "api_calls", "os_calls", "profiler_overheads")
DESCRIPTIONS = ("gpus", "streams", "processes", "threads")
"""Tables that are made from several of the source's, and small."""


def finisher(table: str, scan: Scan) -> Callable[[pl.DataFrame], pl.DataFrame] | None:
    """What is left to do on the rows of `table` when all event tables are read; None for nothing.

    Ranges still open get the trace's end; whole graphs get a device, or go: see `close_ranges`,
    `place_graphs`.
    """
    if table == "nvtx_ranges" and _any(scan(table), pl.col("open")):
        return partial(close_ranges, last_ns=_last_end(scan))
    lost = pl.col("device_id") == gpus.HOST_FIRST_DEVICE
    if table == "graph_launches" and _any(scan(table), lost):
        seen = [scan("kernels"), scan("memcpys"), scan("memsets"), scan(table).filter(~lost)]
        return partial(place_graphs, only_device=_only_device(seen))
    return None


def close_ranges(ranges: pl.DataFrame, *, last_ns: int | None) -> pl.DataFrame:
    """Close ranges without an end at the trace's end; `open` flags them already."""
    end = pl.max_horizontal(pl.lit(last_ns, pl.Int64), "start_ns")
    return ranges.with_columns(pl.coalesce("end_ns", end).alias("end_ns"))


def place_graphs(graphs: pl.DataFrame, *, only_device: pl.DataFrame) -> pl.DataFrame:
    """Put graphs whose first node is on the host onto their process's device, where it has one.

    A row that names no device, of a process with several, goes.
    """
    lost = pl.col("device_id") == gpus.HOST_FIRST_DEVICE
    placed = pl.when(lost).then("only_device").otherwise("device_id").alias("device_id")
    return (
        graphs.join(
            only_device, on="global_pid", how="left", nulls_equal=True, maintain_order="left"
        )
        .with_columns(placed)
        .filter(pl.col("device_id").is_not_null())
        .select(graphs.columns)
    )


def describe(
    table: str, source: Source, strings: StringIds, scan: Scan
) -> tuple[pl.DataFrame, list[extract.Skip]]:
    """One of the tables `DESCRIPTIONS`, and what it had to do without."""
    skipped: list[extract.Skip] = []

    def read(name: str) -> pl.DataFrame:
        got = extract.read_query(source, name, strings)
        skipped.extend(got.skipped)
        return got.frame

    match table:
        case "gpus":
            return gpus.gpu_table(_distinct(scan, ["global_pid", "device_id"]), read), skipped
        case "streams":
            return read("streams"), skipped
        case "processes":
            return _processes(read("processes"), scan), skipped
        case _:
            return _threads(read("threads"), scan), skipped


def _processes(named: pl.DataFrame, scan: Scan) -> pl.DataFrame:
    """Every process with a name or with device work, once."""
    seen = _distinct(scan, ["global_pid"]).drop_nulls()
    return (
        seen.join(
            named.drop_nulls("global_pid").unique("global_pid", keep="last").drop("pid"),
            on="global_pid",
            how="full",
            coalesce=True,
        )
        .with_columns(pid_of(pl.col("global_pid")).alias("pid"), pl.col("name").replace("", None))
        .select("global_pid", "pid", "name")
        .sort("global_pid")
    )


def _threads(named: pl.DataFrame, scan: Scan) -> pl.DataFrame:
    """Every thread with a name or with a CUDA call, once; of several names the last one holds."""
    called = scan("api_calls").select("global_tid").unique().collect().drop_nulls()
    names = named.drop_nulls("global_tid").unique("global_tid", keep="last", maintain_order=True)
    return (
        called.join(names, on="global_tid", how="full", coalesce=True)
        .with_columns(
            pid_of(pl.col("global_tid")).alias("pid"), tid_of(pl.col("global_tid")).alias("tid")
        )
        .select("global_tid", "pid", "tid", "name")
        .sort("global_tid")
    )


def _distinct(scan: Scan, columns: list[str]) -> pl.DataFrame:
    found = [scan(table).select(columns).unique().collect() for table in DEVICE_TABLES]
    return pl.concat(found).unique()


def _only_device(frames: list[pl.LazyFrame]) -> pl.DataFrame:
    """The device of every process that has one only: columns global_pid, only_device."""
    pairs = [f.select("global_pid", "device_id").unique().collect() for f in frames]
    return (
        pl.concat(pairs)
        .unique()
        .group_by("global_pid")
        .agg(pl.col("device_id").first().alias("only_device"), pl.len().alias("devices"))
        .filter(pl.col("devices") == 1)
        .drop("devices")
    )


def _last_end(scan: Scan) -> int | None:
    ends = [scan(t).select(pl.col("end_ns").max()) for t in (*TIMED_TABLES, "nvtx_ranges")]
    found: int | None = pl.concat(pl.collect_all(ends))["end_ns"].max()  # type: ignore[assignment]
    return found


def _any(frame: pl.LazyFrame, condition: pl.Expr) -> bool:
    return bool(frame.select(condition.any()).collect().item())
