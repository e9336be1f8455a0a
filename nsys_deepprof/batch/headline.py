"""All results of one run, and the few figures that stand for it among thousands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof.analyses.gaps import PART_COLUMNS, all_gaps, gaps
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS
from nsys_deepprof.analyses.info import info
from nsys_deepprof.analyses.kernels import kernels
from nsys_deepprof.analyses.memcpy import memcpy
from nsys_deepprof.analyses.trust import capture_warnings

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

IDLE_COLUMNS = tuple(f"idle_{part}" for part in PART_COLUMNS)
"""Idle time by cause, ns; they add up to `idle_ns`."""

ITERATION_COLUMNS: dict[str, pl.DataType] = {
    "pattern": pl.String(),
    "iterations": pl.Int64(),
    "iteration_median_ns": pl.Float64(),
    "iteration_p95_ns": pl.Float64(),
    "iteration_outliers": pl.Int64(),
}


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
    about = info(trace)
    gpus = gpu_rows(trace, about.frame)
    copies = memcpy(trace)
    frames = {
        "gpus": gpus,
        "gaps": gaps(trace).frame,
        "memcpy": copies.frame,
        "kernels": kernels(trace).frame,
    }
    capture = trace.capture
    metrics = {
        "capture_start_utc_ns": capture.start_utc_ns,
        "nsys_version": capture.nsys_version,
        "schema_version": capture.schema_version,
        **_headline(gpus),
        "blocking_copies": copies.extra["blocking_copies"] if gpus.height else None,
        "host_blocked_ns": copies.extra["host_blocked_ns"] if gpus.height else None,
    }
    return RunResults(frames, metrics, capture_warnings(trace))


def gpu_rows(trace: Trace, about: pl.DataFrame) -> pl.DataFrame:
    """One row per GPU of the run: what `info` tells of it (`about`), and more.

    More columns: `IDLE_COLUMNS`, and `ITERATION_COLUMNS` of the GPU's lane with the most
    iteration time (null, and `iterations` 0, where none were found).
    """
    idle = (
        all_gaps(trace)
        .group_by("gpu")
        .agg(pl.col(part).sum().alias(f"idle_{part}") for part in PART_COLUMNS)
    )
    # A GPU without any gap was idle for no time: its parts are zero, not unknown.
    return about.join(idle, on="gpu", how="left", maintain_order="left").with_columns(
        pl.col(name).fill_null(0).cast(pl.Int64) for name in IDLE_COLUMNS
    )


def _headline(gpus: pl.DataFrame) -> dict[str, Any]:
    """Sums over the run's GPUs; everything that nobody could measure is None."""
    sums = ("window_ns", *STATE_COLUMNS, *IDLE_COLUMNS, "kernels", "memcpys", "memsets")
    totals = {name: int(gpus[name].sum()) if gpus.height else None for name in sums}
    window_ns = totals["window_ns"]

    def share(*names: str) -> float | None:
        return sum(totals[n] or 0 for n in names) / window_ns if window_ns else None

    return {
        "gpus": gpus.height,
        "gpu_names": ", ".join(gpus["name"].drop_nulls().unique(maintain_order=True)) or None,
        **totals,
        "utilization": share("compute_ns", "comm_ns"),
        "copy_share": share("copy_ns"),
        "idle_share": share("idle_ns"),
    }
