"""All results of one run, and the few figures that stand for it among thousands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof.analyses.findings import findings
from nsys_deepprof.analyses.gaps import PART_COLUMNS, all_gaps, gaps
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS
from nsys_deepprof.analyses.info import info
from nsys_deepprof.analyses.iterations import iterations
from nsys_deepprof.analyses.kernels import kernels
from nsys_deepprof.analyses.memcpy import memcpy
from nsys_deepprof.analyses.patterns import patterns
from nsys_deepprof.analyses.trust import capture_warnings

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

IDLE_COLUMNS = tuple(f"idle_{part}" for part in PART_COLUMNS)
"""Idle time by cause, ns; they add up to `idle_ns`."""

ITERATION_STATES = tuple(f"iteration_{state}" for state in STATE_COLUMNS)
"""Time in each state within an iteration, ns; they add up to `iteration_mean_ns`."""

_ITERATION_FIGURES = ("median_ns", "p95_ns", "mean_ns", "outliers")


@dataclass(frozen=True)
class RunResults:
    """The frames of `results/`, the headline figures, and what cannot be trusted."""

    frames: dict[str, pl.DataFrame]
    metrics: dict[str, Any]
    warnings: tuple[str, ...]


def run_results(trace: Trace) -> RunResults:
    """Everything that a batch keeps of a run besides its dataset and its report.

    Frames, each as the command of its name gives it by default: `iterations`, `patterns`, `gaps`,
    `memcpy`, `kernels`, `findings`; `anatomy`, the positions of the iteration of each lane; and
    `gpus`, a row per GPU (see `gpu_rows`).
    """
    found, copies, costs = iterations(trace), memcpy(trace), findings(trace)
    gpus = gpu_rows(trace, found.frame)
    frames = {
        "gpus": gpus,
        "iterations": found.frame,
        "anatomy": found.extra["anatomy"],
        "patterns": patterns(trace).frame,
        "gaps": gaps(trace).frame,
        "memcpy": copies.frame,
        "kernels": kernels(trace).frame,
        "findings": costs.frame,
    }
    capture = trace.capture
    metrics: dict[str, Any] = {
        "capture_start_utc_ns": capture.start_utc_ns,
        "nsys_version": capture.nsys_version,
        "schema_version": capture.schema_version,
        "gpus": gpus.height,
        "gpu_names": ", ".join(gpus["name"].drop_nulls().unique(maintain_order=True)) or None,
    }
    if gpus.height:
        top = costs.frame.head(1).to_dicts()
        metrics |= {
            **_totals(gpus),
            **_main_iterations(gpus),
            "blocking_copies": copies.extra["blocking_copies"],
            "host_blocked_ns": copies.extra["host_blocked_ns"],
            "findings": costs.frame.height,
            "recoverable_ns": costs.extra["recoverable_ns"],
            "recoverable_share": _ratio(costs.extra["recoverable_ns"], costs.extra["wall_ns"]),
            "top_finding": top[0]["title"] if top else None,
            "top_finding_kind": top[0]["kind"] if top else None,
        }
    return RunResults(frames, metrics, capture_warnings(trace))


def gpu_rows(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """One row per GPU of the run: what `info` tells of it, and more.

    More columns: `IDLE_COLUMNS`; of its lane with the most iteration time among the iterations
    `found`: `lane`, `pattern`, `iterations`, `iteration_median_ns`, `_p95_ns`, `_mean_ns`,
    `_outliers`, and `ITERATION_STATES` (all null, and `iterations` 0, where none were found).
    """
    idle = (
        all_gaps(trace)
        .group_by("gpu")
        .agg(pl.col(part).sum().alias(f"idle_{part}") for part in PART_COLUMNS)
    )
    duration = pl.col("duration_ns")
    lanes = (
        found.group_by("gpu", "lane", "pattern", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("iterations"),
            duration.sum().alias("total_ns"),
            duration.median().alias("iteration_median_ns"),
            duration.quantile(0.95, "nearest").alias("iteration_p95_ns"),
            duration.mean().alias("iteration_mean_ns"),
            pl.col("outlier").sum().cast(pl.Int64).alias("iteration_outliers"),
            *(pl.col(state).mean().alias(f"iteration_{state}") for state in STATE_COLUMNS),
        )
        .sort("gpu", "total_ns", descending=[False, True], maintain_order=True)
        .unique("gpu", keep="first", maintain_order=True)
        .drop("total_ns")
    )
    # A GPU without any gap was idle for no time: its parts are zero, not unknown.
    return (
        info(trace)
        .frame.join(idle, on="gpu", how="left", maintain_order="left")
        .join(lanes, on="gpu", how="left", maintain_order="left")
        .with_columns(pl.col(*IDLE_COLUMNS, "iterations").fill_null(0))
    )


def _totals(gpus: pl.DataFrame) -> dict[str, Any]:
    """Sums over the run's GPUs, and shares of their windows together."""
    sums = ("window_ns", *STATE_COLUMNS, *IDLE_COLUMNS, "kernels", "memcpys", "memsets")
    totals = {name: int(gpus[name].sum()) for name in sums}
    window_ns = totals["window_ns"]
    return totals | {
        "utilization": _ratio(totals["compute_ns"] + totals["comm_ns"], window_ns),
        "copy_share": _ratio(totals["copy_ns"], window_ns),
        "idle_share": _ratio(totals["idle_ns"], window_ns),
    }


def _main_iterations(gpus: pl.DataFrame) -> dict[str, Any]:
    """Of the GPU whose median iteration is the longest: a run is as fast as its slowest GPU."""
    names = ["pattern", "iterations", *(f"iteration_{name}" for name in _ITERATION_FIGURES)]
    slowest = gpus.sort("iteration_median_ns", descending=True, nulls_last=True).row(0, named=True)
    return {name: slowest[name] for name in names}


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
