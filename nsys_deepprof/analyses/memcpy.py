"""Memory copies: which ones hold up the host or the GPU, and how fast they are for their link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof import host
from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS, analysed_windows, gpu_states
from nsys_deepprof.codes import UNIFIED_MEMORY_KINDS
from nsys_deepprof.copies import SMALL_BYTES, blocking_memset, costed_copies, train_of_copy
from nsys_deepprof.intervals import total, union
from nsys_deepprof.links import link_peaks
from nsys_deepprof.result import Result
from nsys_deepprof.units import format_bytes, format_ns, format_rate
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

CEILING_BYTES = 16 << 20
"""Copies of at least this size show what the link gives."""

CEILING_QUANTILE = 0.99

_HIDDEN = ("context_id", "call_start_ns", "call_end_ns", "call_tid", "wait_start_ns", "wait_end_ns")


@with_context
def memcpy(
    trace: Trace, *, only_blocking: bool = False, link_peak_gbps: float | None = None
) -> Result:
    """One row per copy, the blocking ones first, dearest first: by exposed_ns + host_blocked_ns.

    Blocking host-to-device copies of at most 64 KiB come after the other blocking ones: such a
    call returns once the bytes are staged. `only_blocking` leaves out all others.
    `link_peak_gbps` sets the peak of the link to the host; by default it comes from the GPU's name.

    Columns: see `copies.SCHEMA`. Extra keys:

    - `copies`, `blocking_copies`, `blocking_small_htod` (counts, whatever `only_blocking`);
    - `exposed_ns`: time of all GPUs in which copies run and no kernel does, each ns once;
      `host_blocked_ns`: time in which threads are blocked by copies, each ns of a thread once;
    - `kinds`: a frame per kind and memory kinds: copies, bytes, total_ns, exposed_ns, blocking,
      small, host_blocked_ns (sums over copies), throughput_gbps (bytes / total_ns), ceiling_gbps
      (99th percentile of this run's copies of 16 MiB and more; null without any), peak_gbps (of the
      link, by the GPU's name; null when not known);
    - `trains`: a frame of coalescable runs of copies: gpu, pid, stream_id, kind, start_ns, end_ns,
      copies, bytes, copy_ns, exposed_ns;
    - `migrations`: a frame of unified-memory migrations by kind and cause;
    - `blocking_memsets`: a frame of synchronous memsets of pinned or managed memory by api;
    - `summary`: the kinds in words.
    """
    copies = in_windows(costed_copies(trace), trace.windows)
    kinds = _kinds(trace, copies, link_peak_gbps)
    blocks = pl.col("blocking").list.len() > 0
    staged = blocks & (pl.col("kind") == "HtoD") & (pl.col("bytes") <= SMALL_BYTES)
    cost = pl.col("exposed_ns") + pl.col("host_blocked_ns").fill_null(0)
    ranked = copies.sort(
        pl.when(staged).then(1).when(blocks).then(0).otherwise(2),
        cost,
        "gpu",
        "start_ns",
        descending=[False, True, False, False],
        maintain_order=True,
    )
    extra: dict[str, Any] = {
        "copies": copies.height,
        "blocking_copies": copies.select(blocks.sum()).item(),
        "blocking_small_htod": copies.select(staged.sum()).item(),
        "exposed_ns": _copy_state_ns(trace),
        "host_blocked_ns": _blocked_ns(copies),
        "kinds": kinds,
        "trains": trains(trace),
        "migrations": _migrations(copies),
        "blocking_memsets": _blocking_memsets(trace),
        "summary": [_kind_line(row) for row in kinds.iter_rows(named=True)],
    }
    if only_blocking:
        ranked = ranked.filter(blocks)
    return Result("memcpy", ranked.drop(_HIDDEN), extra, tuple(_notes(trace, copies)))


def _notes(trace: Trace, copies: pl.DataFrame) -> list[str]:
    if not trace.has("memcpys"):
        return ["No copies were traced."]
    if copies.height == 0:
        return ["No copies in the analysed time."]
    notes = []
    unknown = copies["blocking"].null_count()
    if unknown:
        notes.append(
            f"The calls of {unknown:,} copies are not in the capture: whether those block is "
            "unknown."
        )
    if copies["src_kind"].null_count() == copies.height:
        notes.append("The export does not tell memory kinds: pageable copies cannot be told.")
    return notes


def _copy_state_ns(trace: Trace) -> int:
    states = gpu_states(trace)
    copy = STATE_COLUMNS.index("copy_ns")
    return sum(
        int(states[gpu].split(*window)[STATE_COLUMNS[copy]].sum())
        for gpu, window in analysed_windows(trace).items()
    )


def _blocked_ns(copies: pl.DataFrame) -> int | None:
    """Thread time blocked by copies: a synchronise that awaits many copies counts once."""
    if copies.height and copies["host_blocked_ns"].null_count() == copies.height:
        return None
    by_call = pl.col("blocking").list.set_difference(["awaited"]).list.len() > 0
    spans = pl.concat(
        [
            copies.filter(by_call).select("call_tid", "call_start_ns", "call_end_ns"),
            copies.filter(pl.col("wait_start_ns").is_not_null()).select(
                "call_tid",
                pl.max_horizontal("wait_start_ns", "call_end_ns").alias("call_start_ns"),
                pl.col("wait_end_ns").alias("call_end_ns"),
            ),
        ]
    )
    return sum(
        total(union(mine["call_start_ns"].to_numpy(), mine["call_end_ns"].to_numpy()))
        for _, mine in spans.group_by("call_tid")
    )


def _kinds(trace: Trace, copies: pl.DataFrame, link_peak_gbps: float | None) -> pl.DataFrame:
    blocks = pl.col("blocking").list.len() > 0
    large = pl.col("throughput_gbps").filter(pl.col("bytes") >= CEILING_BYTES)
    kinds = (
        copies.group_by("kind", "src_kind", "dst_kind", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("copies"),
            pl.col("bytes").sum(),
            pl.col("duration_ns").sum().alias("total_ns"),
            pl.col("exposed_ns").sum(),
            blocks.sum().cast(pl.Int64).alias("blocking"),
            pl.col("small").sum().cast(pl.Int64),
            # A sum over nothing known is unknown, not 0.
            pl.when(pl.col("host_blocked_ns").is_not_null().any())
            .then(pl.col("host_blocked_ns").sum())
            .alias("host_blocked_ns"),
            large.quantile(CEILING_QUANTILE, "lower").alias("ceiling_gbps"),
        )
        .with_columns(
            pl.when(pl.col("total_ns") > 0)
            .then(pl.col("bytes") / pl.col("total_ns"))
            .alias("throughput_gbps")
        )
        .sort("total_ns", descending=True, maintain_order=True)
    )
    peaks = [_peak_gbps(trace, str(kind), link_peak_gbps) for kind in kinds["kind"]]
    return kinds.with_columns(pl.Series("peak_gbps", peaks, dtype=pl.Float64))


def _kind_line(row: dict[str, Any]) -> str:
    """`HtoD pinned to device: 150 copies, 404 MiB at 8.37 GB/s (best 9.93, link 31.5), ...`."""
    known = [
        f"{word} {format_rate(row[column])}"
        for word, column in (("best", "ceiling_gbps"), ("link", "peak_gbps"))
        if row[column] is not None
    ]
    memory = " to ".join(str(row[side]) for side in ("src_kind", "dst_kind") if row[side])
    limits = f" ({', '.join(known)})" if known else ""
    return (
        f"{row['kind']}{' ' + memory if memory else ''}: {row['copies']:,} copies, "
        f"{format_bytes(row['bytes'])} at {format_rate(row['throughput_gbps'])}{limits}; "
        f"{format_ns(row['total_ns'])}, exposed {format_ns(row['exposed_ns'])}; "
        f"{row['blocking']:,} block the host"
    )


def _peak_gbps(trace: Trace, kind: str, link_peak_gbps: float | None) -> float | None:
    """The link's peak where every GPU of the trace has the same; else unknown."""
    to_host = kind in ("HtoD", "DtoH", "HtoA", "AtoH", "UM HtoD", "UM DtoH")
    if not to_host and kind not in ("PtoP", "UM DtoD"):
        return None
    if to_host and link_peak_gbps is not None:
        return link_peak_gbps
    found: set[float | None] = set()
    for name in trace.table("gpus")["name"].unique():
        peaks = link_peaks(name)
        found.add(None if peaks is None else peaks.host_gbps if to_host else peaks.peer_gbps)
    return found.pop() if len(found) == 1 else None


def trains(trace: Trace) -> pl.DataFrame:
    """Runs of copies that one copy could replace, most copies first: see `copies.train_of_copy`.

    Columns: gpu, pid, stream_id, kind, start_ns, end_ns, copies, bytes, copy_ns (durations added
    up), exposed_ns. A train belongs to the window in which it starts.
    """
    found = (
        costed_copies(trace)
        .with_columns(train_of_copy(trace).alias("train"))
        .filter(pl.col("train").is_not_null())
        .group_by("train", maintain_order=True)
        .agg(
            pl.col("gpu", "pid", "stream_id", "kind", "start_ns").first(),
            pl.col("end_ns").max(),
            pl.len().cast(pl.Int64).alias("copies"),
            pl.col("bytes").sum(),
            pl.col("duration_ns").sum().alias("copy_ns"),
            pl.col("exposed_ns").sum(),
        )
        .drop("train")
    )
    return in_windows(found, trace.windows).sort(
        "copies", "gpu", "start_ns", descending=[True, False, False]
    )


def _migrations(copies: pl.DataFrame) -> pl.DataFrame:
    return (
        copies.filter(pl.col("kind").cast(pl.String).is_in(UNIFIED_MEMORY_KINDS))
        .group_by("kind", pl.col("migration_cause").alias("cause"), maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("migrations"),
            pl.col("bytes").sum(),
            pl.col("duration_ns").sum().alias("total_ns"),
            pl.col("exposed_ns").sum(),
        )
        .sort("total_ns", descending=True, maintain_order=True)
    )


def _blocking_memsets(trace: Trace) -> pl.DataFrame:
    memsets = in_windows(host.with_calls(trace, "memsets"), trace.windows)
    call_ns = pl.col("call_end_ns") - pl.col("call_start_ns")
    return (
        memsets.filter(blocking_memset())
        .group_by(pl.col("call_api").alias("api"), "mem_kind", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("memsets"),
            pl.col("bytes").sum(),
            call_ns.sum().alias("host_blocked_ns"),
        )
        .sort("host_blocked_ns", descending=True, maintain_order=True)
    )
