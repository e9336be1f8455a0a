"""Figures of a run by name, for gates: what `info`, `iterations` and `findings` tell.

A figure has one value per GPU (per lane for iterations), or one for the whole run. A value is None
where it could not be computed, and then `reason` says why; a count of nothing is 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof.analyses.findings import findings
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS
from nsys_deepprof.analyses.info import info
from nsys_deepprof.analyses.iterations import iterations
from nsys_deepprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsys_deepprof.trace import Trace

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

STATES = tuple(column.removesuffix("_ns") for column in STATE_COLUMNS)
COUNTS = ("kernels", "memcpys", "memsets", "graph_launches")
RUN_COUNTS = ("gpus", "warnings", "dropped", "invalid_timestamps", "unmatched_kernels")
ITERATION_TIMES = ("median", "mean", "min", "max", "p95", "p99")
ITERATION_COUNTS = ("count", "outliers", "variants", "kernels")
SEVERITIES = ("high", "medium", "low")

NEEDED_TABLES: dict[str, tuple[str, ...]] = {
    "synchronise": ("api_calls",),
    "os_wait": ("api_calls", "os_calls"),
    "host_stall": ("api_calls",),
    "launch_bound": ("api_calls",),
    "cuda_call": ("api_calls",),
    "slow_call": ("api_calls",),
    "allocation": ("api_calls",),
    "module_loading": ("api_calls",),
    "profiler": ("api_calls",),
    "dependency": ("api_calls",),
    "launch_latency": ("api_calls",),
    "exposed_copy": ("memcpys",),
    "pageable_copy": ("memcpys",),
    "sync_copy": ("memcpys", "api_calls"),
    "awaited_copy": ("memcpys", "api_calls"),
    "readback": ("memcpys", "api_calls"),
    "copy_train": ("memcpys", "api_calls"),
    "device_copy": ("memcpys",),
    "peer_copy": ("memcpys",),
    "migration": ("memcpys",),
    "exposed_communication": ("kernels",),
    "exposed_memset": ("memsets",),
}
"""Every kind of finding, with the tables without which it cannot be looked for."""

KINDS = tuple(NEEDED_TABLES)

_GPU_PREFIX = re.compile(r"gpu(\d+)\.(.+)")


@dataclass(frozen=True)
class Value:
    """One value of a figure: of what (`gpu 0`, a lane, the run), how much, or why not known."""

    where: str
    gpu: int | None
    value: float | int | None
    reason: str | None = None


def metric_names() -> list[str]:
    """Every figure, times with their unit in ms; `_ns`, `_us`, `_s` are understood as well."""
    return [
        *(f"{state}_share" for state in STATES),
        "utilization",
        *(f"{state}_ms" for state in STATES),
        "window_ms",
        *COUNTS,
        *RUN_COUNTS,
        *(f"iteration.{name}" for name in ITERATION_COUNTS),
        *(f"iteration.{name}_ms" for name in ITERATION_TIMES),
        *(f"iteration.{state}_share" for state in STATES),
        *(f"iteration.{state}_ms" for state in STATES),
        "finding.count",
        *(f"finding.{severity}" for severity in SEVERITIES),
        "finding.recoverable_share",
        "finding.recoverable_ms",
        *(f"finding.{kind}" for kind in KINDS),
        *(f"finding.{kind}.recoverable_share" for kind in KINDS),
        *(f"finding.{kind}.recoverable_ms" for kind in KINDS),
    ]


def split_gpu(metric: str) -> tuple[int | None, str]:
    """`gpu0.idle_share` as (0, `idle_share`); (None, metric) where no GPU is named."""
    match = _GPU_PREFIX.fullmatch(metric)
    return (int(match[1]), match[2]) if match else (None, metric)


def check_metric(metric: str) -> None:
    """Raise UsageError, which lists the figures, where there is none of that name."""
    _, name = split_gpu(metric)
    known = metric_names()
    base, unit = _unit(name)
    if name in known or (unit and f"{base}_ms" in known):
        return
    # Every kind of finding has three figures: told once.
    plain = [n for n in metric_names() if n.removeprefix("finding.").partition(".")[0] not in KINDS]
    raise UsageError(
        f"metric {metric}",
        "no such metric",
        f"one of {', '.join(plain)}; finding.KIND, finding.KIND.recoverable_share and "
        f"finding.KIND.recoverable_ms with KIND one of {', '.join(KINDS)}; a time in ns, us, ms or "
        "s; gpuN. before a figure of GPUs or iterations picks one GPU",
    )


def metric_values(trace: Trace, metric: str) -> list[Value]:
    """The values of a figure, at least one. Raises UsageError for an unknown figure or GPU.

    Shares are of the GPU's analysed window (of an iteration's own time for `iteration.`, the median
    over iterations); the percentiles are nearest ranks. `finding.KIND` counts findings.
    """
    check_metric(metric)
    gpu, name = split_gpu(metric)
    if gpu is not None and (name in RUN_COUNTS or name.startswith("finding.")):
        raise UsageError(f"metric {metric}", "is of the whole run", f"leave out gpu{gpu}.")
    present = info(trace).frame["gpu"].to_list()
    if gpu is not None and present and gpu not in present:
        here = ", ".join(map(str, present))
        raise UsageError(f"metric {metric}", f"no GPU {gpu} in this run", f"there: {here}")
    base, unit = _unit(name)
    values = list(_values(trace, base if unit else name))
    if gpu is not None:
        values = [v for v in values if v.gpu in (gpu, None)] or [
            Value(f"gpu {gpu}", gpu, None, f"no such figure for GPU {gpu}")
        ]
    if unit is None:
        return values
    size = UNITS_NS[unit]
    return [
        Value(v.where, v.gpu, None if v.value is None else v.value / size, v.reason) for v in values
    ]


def _unit(name: str) -> tuple[str, str | None]:
    base, _, unit = name.rpartition("_")
    return (base, unit) if base and unit in UNITS_NS else (name, None)


def _values(trace: Trace, name: str) -> Iterator[Value]:
    """The values of a figure without a unit; times in ns."""
    group, _, rest = name.partition(".")
    if group == "iteration":
        yield from _iteration_values(trace, rest)
    elif group == "finding":
        yield _finding_value(trace, rest)
    elif name in RUN_COUNTS:
        yield _run_value(trace, name)
    else:
        yield from _gpu_values(trace, name)


def _gpu_values(trace: Trace, name: str) -> Iterator[Value]:
    rows = info(trace).frame
    if rows.height == 0:
        yield Value("run", None, None, "no GPU activity in this capture")
    for row in rows.iter_rows(named=True):
        where = f"gpu {row['gpu']}"
        if name in row:
            yield _known(where, row["gpu"], row[name], "the GPU's window is empty")
        elif name.endswith("_share"):
            share = _ratio(row[f"{name.removesuffix('_share')}_ns"], row["window_ns"])
            yield _known(where, row["gpu"], share, "the GPU's window is empty")
        else:
            yield Value(where, row["gpu"], row[f"{name}_ns"])


def _run_value(trace: Trace, name: str) -> Value:
    facts = info(trace).extra
    match name:
        case "gpus":
            return Value("run", None, facts["gpus"].height)
        case "warnings":
            return Value("run", None, len(facts["warnings"]))
        case "dropped":
            lost = sum(n for reasons in facts["dropped"].values() for n in reasons.values())
            return Value("run", None, lost)
        case _:
            return _known("run", None, facts[name], "no CUDA API calls were traced")


def _iteration_values(trace: Trace, name: str) -> Iterator[Value]:
    result = iterations(trace)
    rows = result.frame
    if rows.height == 0:
        looked = info(trace).extra["status"] == "ok"
        reason = result.extra["reason"] if looked else "no GPU activity in this capture"
        # None found is a count of 0; that nothing could be looked at is not.
        count = 0 if looked and name == "count" else None
        yield Value("run", None, count, None if count == 0 else f"no iterations: {reason}")
        return
    for (gpu, lane), mine in rows.group_by("gpu", "lane", maintain_order=True):
        assert isinstance(gpu, int)
        yield Value(str(lane), gpu, _iteration_value(mine, name))


def _iteration_value(rows: pl.DataFrame, name: str) -> float | int | None:
    duration = rows["duration_ns"]
    value: Any
    match name:
        case "count":
            value = rows.height
        case "outliers":
            value = int(rows["outlier"].sum())
        case "variants":
            value = rows["variant"].n_unique()
        case "kernels":
            value = rows["kernels"].median()
        case "median" | "mean" | "min" | "max":
            value = getattr(duration, name)()
        case "p95" | "p99":
            value = duration.quantile(int(name[1:]) / 100, "nearest")
        case _ if name.endswith("_share"):
            state = rows[f"{name.removesuffix('_share')}_ns"]
            value = (state / duration).filter(duration > 0).median()
        case _:
            value = rows[f"{name}_ns"].median()
    return value if isinstance(value, int | float) else None


def _finding_value(trace: Trace, name: str) -> Value:
    result = findings(trace)
    if result.extra["status"] != "ok":
        return Value("run", None, None, "no GPU activity in this capture")
    rows = result.frame
    kind, _, what = name.partition(".")
    if kind in NEEDED_TABLES:
        missing = [t for t in NEEDED_TABLES[kind] if not trace.has(t)]
        if missing:
            return Value("run", None, None, f"could not be looked for: no {', '.join(missing)}")
        if kind == "pageable_copy" and _memory_kinds_unknown(trace):
            return Value("run", None, None, "the capture does not tell pinned from pageable memory")
        rows = rows.filter(pl.col("kind") == kind)
        if not what:
            return Value("run", None, rows.height)
    elif kind in SEVERITIES:
        return Value("run", None, rows.filter(pl.col("severity").cast(pl.String) == kind).height)
    elif kind == "count":
        return Value("run", None, rows.height)
    else:
        what = kind
    recoverable_ns = int(rows["recoverable_ns"].sum())
    if what == "recoverable":
        return Value("run", None, recoverable_ns)
    return Value("run", None, _ratio(recoverable_ns, result.extra["wall_ns"]))


def _memory_kinds_unknown(trace: Trace) -> bool:
    copies = trace.table("memcpys")
    return copies.height > 0 and copies["src_kind"].null_count() == copies.height


def _known(where: str, gpu: int | None, value: float | None, reason: str) -> Value:
    return Value(where, gpu, value, reason if value is None else None)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
