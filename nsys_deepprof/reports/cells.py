"""How columns are shown to people: which ones, under which heading, and each value in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsys_deepprof.names import shorten
from nsys_deepprof.units import (
    format_bytes,
    format_count,
    format_ns,
    format_rate,
    format_share,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.result import Result

COLUMNS: dict[str, tuple[str, ...]] = {
    "info": (
        *("gpu", "name", "pid", "window_ns", "utilization", "compute_ns", "comm_ns", "copy_ns"),
        *("memset_ns", "idle_ns", "kernels", "memcpys"),
    ),
    "patterns": (
        *("lane", "pattern", "depth", "length", "occurrences", "coverage_share", "median_ns"),
        *("p95_ns", "body"),
    ),
    "iterations": (
        *("gpu", "index", "start_ns", "duration_ns", "kernels", "compute_ns", "comm_ns"),
        *("copy_ns", "idle_ns", "variant", "explanation"),
    ),
    "gaps": (
        *("gpu", "start_ns", "duration_ns", "cause", "drained_by", "prev_op", "next_op", "nvtx"),
        "iteration",
    ),
    "memcpy": (
        *("gpu", "start_ns", "kind", "src_kind", "dst_kind", "bytes", "duration_ns"),
        *("throughput_gbps", "exposed_ns", "host_blocked_ns", "blocking", "iteration"),
    ),
    "kernels": ("name", "calls", "total_ns", "share", "mean_ns", "median_ns", "max_ns"),
    "launches": (
        *("lane", "kernels", "calls", "api_ns", "api_median_ns", "queue_median_ns"),
        *("queue_max_ns", "run_median_ns", "short_share", "unqueued_share", "depth_max"),
    ),
    "communication": (
        *("gpu", "operation", "name", "calls", "total_ns", "exposed_ns", "exposed_share"),
        *("median_ns", "max_ns", "wait_ns"),
    ),
    "findings": (
        *("severity", "title", "recoverable_ns", "recoverable_share", "occurrences", "where"),
        "advice",
    ),
    "diff": (
        *("position", "part", "what", "change", "a_ns", "b_ns", "delta_ns", "delta_share"),
        *("a_calls", "b_calls"),
    ),
    "check": ("outcome", "text"),
    "ranks": (
        *("index", "slowest", "duration_ns", "lag_ns", "lag_share", "where", "wait_ns"),
        *("transfer_ns", "imbalance"),
    ),
}
"""The columns that a terminal shows, by command; the other formats have all of them."""

NAMES = frozenset(
    {"explanation", "body", "name", "prev_op", "next_op", "nvtx", "what", "text", "where"}
)
"""Columns of text of any length."""

WORDS = frozenset(
    {
        *("part", "change", "outcome", "slowest", "pattern", "cause", "kind", "src_kind"),
        *("dst_kind", "blocking", "variant", "drained_by", "operation", "severity", "lane"),
        *("title", "advice"),
    }
)
"""Columns of words of this tool's own, which are shown whole. All others hold numbers."""

_HEADINGS = {
    "throughput_gbps": "rate",
    "utilization": "busy",
    "coverage_share": "explains",
    "occurrences": "times",
    "prev_op": "after",
    "next_op": "before",
    "src_kind": "from",
    "dst_kind": "to",
    "position": "place",
}
_STATES = ("compute_ns", "comm_ns", "copy_ns", "memset_ns", "idle_ns")
_COUNTS = ("kernels", "memcpys", "memsets", "calls", "occurrences", "length", "iterations")
_FIRST_NAME = 60


def shown_columns(result: Result) -> list[str]:
    """The columns that people are shown, in order."""
    every = result.frame.columns
    return [c for c in COLUMNS.get(result.command, tuple(every)) if c in every]


def heading(name: str) -> str:
    """A column's name without its unit, which stands with each value."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    return name.removesuffix("_ns").removesuffix("_id").replace("_", " ")


def cell(name: str, row: dict[str, Any], origin_ns: int) -> str:
    """A value with its unit; an em dash for none. Start times count from `origin_ns`, the states of
    a GPU are shares of its window. People count places from 1, programs positions from 0."""
    value = row[name]
    if name in _STATES and row.get("window_ns"):
        return format_share(None if value is None else value / row["window_ns"])
    return _formatter(name, origin_ns)(value)


def _formatter(name: str, origin_ns: int) -> Callable[[Any], str]:
    if name == "start_ns":
        return lambda v: "—" if v is None else f"{(v - origin_ns) / 1e6:,.3f} ms"
    if name.endswith("_ns"):
        return format_ns
    if name == "bytes":
        return format_bytes
    if name == "throughput_gbps":
        return format_rate
    if name.endswith("share") or name in {"utilization", "imbalance"}:
        return format_share
    if name in _COUNTS:
        return format_count
    if name == "position":
        return lambda v: "—" if v is None else format_count(v + 1)
    return _body if name == "body" else _plain


def _plain(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def _body(parts: list[dict[str, Any]] | None) -> str:
    """`5, (82a1)x4, 12: gemm, ...`: operations and loops in order, and how it begins."""
    if not parts:
        return "—"
    texts: list[str] = []
    plain = 0
    for part in [*parts, {}]:
        if part.get("name") is not None:
            plain += 1
            continue
        if plain:
            texts.append(str(plain))
            plain = 0
        if part:
            least, most = part["times"], part.get("times_most") or part["times"]
            times = least if least == most else f"{least}..{most}"
            texts.append(f"({part['pattern']})x{times}")
    names = [part["name"] for part in parts if part.get("name") is not None]
    begins = shorten(names[0], _FIRST_NAME) if names else ""
    more = ", ..." if len(names) > 1 else ""
    return f"{', '.join(texts)}: {begins}{more}" if names else ", ".join(texts)


def printable(text: str) -> str:
    """`text` on one line: names come from strangers, and may neither move a cursor nor colour a
    terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
