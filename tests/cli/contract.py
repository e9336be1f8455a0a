"""The names that users and scripts rely on."""

from __future__ import annotations

_GAP_PARTS = (
    *("launch_ns", "device_wait_ns", "sync_ns", "alloc_ns", "load_ns", "api_ns", "profiler_ns"),
    *("os_ns", "host_ns", "unknown_ns"),
)

ROW_KEYS: dict[str, tuple[str, ...]] = {
    "info": (
        *("gpu", "pid", "device_id", "name", "window_start_ns", "window_end_ns", "window_ns"),
        *("compute_ns", "comm_ns", "copy_ns", "memset_ns", "idle_ns"),
        *("kernels", "memcpys", "memsets"),
    ),
    "patterns": (
        *("lane", "pattern", "parent", "depth", "length", "occurrences", "coverage_ns"),
        *("coverage_share", "mean_ns", "median_ns", "p95_ns", "first_start_ns", "body"),
    ),
    "iterations": (
        *("gpu", "pid", "stream_id", "index", "start_ns", "end_ns", "duration_ns", "first_event"),
        *("kernels", "compute_ns", "comm_ns", "copy_ns", "memset_ns", "idle_ns", "variant"),
        *("outlier", "explanation"),
    ),
    "gaps": (
        *("gpu", "pid", "start_ns", "end_ns", "duration_ns", "cause", *_GAP_PARTS),
        *("drained_by", "prev_op", "next_op", "nvtx", "iteration"),
    ),
    "memcpy": (
        *("gpu", "pid", "stream_id", "start_ns", "end_ns", "duration_ns", "kind", "src_kind"),
        *("dst_kind", "bytes", "throughput_gbps", "exposed_ns", "host_blocked_ns", "awaited_ns"),
        *("blocking", "small", "api", "nvtx", "iteration"),
    ),
    "kernels": (
        *("name", "short_name", "calls", "total_ns", "share", "mean_ns", "median_ns", "min_ns"),
        *("max_ns", "gpu_share_exposed"),
    ),
    "launches": ("lane", "gpu", "pid", "stream_id", "kernels", "depth_max"),
    "communication": ("gpu", "operation", "name", "calls", "total_ns", "exposed_ns", "wait_ns"),
    "findings": (
        *("kind", "title", "severity", "recoverable_ns", "recoverable_share", "occurrences"),
        *("where", "advice", "evidence"),
    ),
}
"""Columns of the rows by table command: the same in JSON, CSV and Parquet."""

TOP_KEYS: dict[str, tuple[str, ...]] = {
    "info": (
        *("status", "skipped", "unmatched_kernels", "gpus", "dropped", "warnings", "capture"),
    ),
    "patterns": ("lanes",),
}
"""Further keys of the JSON object, by command."""

TABLE_COMMANDS = tuple(ROW_KEYS)

COMMANDS = ("convert", *TABLE_COMMANDS, "report", "diff", "batch", "check", "export", "ranks")

DIFF_KEYS = ("what", "a_ns", "b_ns", "delta_ns", "delta_share", "a_calls", "b_calls")
DIFF_ITERATION_KEYS = (
    *("a_median_ns", "b_median_ns", "delta_share", "ci_low", "ci_high", "verdict"),
)
VERDICTS = ("faster", "slower", "same", "inconclusive")
