"""Rows for people: a table that fits a terminal, with units, and what cannot be trusted on top."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

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

    from rich.table import Table

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

_HEADINGS = {
    "throughput_gbps": "rate",
    "utilization": "busy",
    "coverage_share": "explains",
    "occurrences": "times",
}
# These give way when the terminal is narrow.
_LONG = {"explanation", "body", "name", "prev_op", "next_op", "nvtx", "lane", "what"}
_LONG |= {"text", "where"}
_LEFT = {
    "part",
    "change",
    "outcome",
    "slowest",
    "name",
    "pattern",
    "cause",
    "kind",
    "src_kind",
    "dst_kind",
    "blocking",
    "variant",
}
_STATES = ("compute_ns", "comm_ns", "copy_ns", "memset_ns", "idle_ns")
_FIRST_TO_GO = (
    *("nvtx", "variant", "max_ns", "median_ns", "drained_by", "iteration", "pid", "memset_ns"),
    *("src_kind", "dst_kind", "prev_op", "comm_ns", "throughput_gbps", "memcpys", "kernels"),
)
"""Columns that a narrow terminal does without, in the order in which they go."""
_FILE_WIDTH = 180
_MIN_LONG_WIDTH = 12
_SPACE = 2


def render(result: Result, source: str, *, limit: int, width: int | None) -> str:
    """The result as text. `limit` rows at most (0: all); `width` in columns, None for a file."""
    from rich.console import Console
    from rich.text import Text

    frame = result.frame
    shown = frame.head(limit) if limit else frame
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width or _FILE_WIDTH, highlight=False, markup=False, emoji=False
    )
    console.print(Text(_printable(f"{result.command}: {source}")))
    for warning in result.extra.get("warnings", ()):
        console.print(Text(f"! {_printable(str(warning))}"))
    for note in result.notes:
        console.print(Text(_printable(note)))
    for line in _preamble(result):
        console.print(Text(_printable(line)))
    if shown.height:
        console.print(_table(result, shown, console.width))
    if shown.height < frame.height:
        console.print(Text(f"{shown.height:,} of {frame.height:,} rows (--limit 0 shows all)"))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _table(result: Result, shown: pl.DataFrame, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    names = [c for c in COLUMNS.get(result.command, tuple(shown.columns)) if c in shown.columns]
    origin_ns = result.extra.get("trace_start_ns", 0)
    cells = {
        name: [_printable(_cell(name, row, origin_ns)) for row in shown.iter_rows(named=True)]
        for name in names
    }
    widths = _widths(cells, width)
    table = Table(box=None, padding=(0, _SPACE, 0, 0), show_edge=False, header_style="")
    for name, column_width in widths.items():
        justify: Literal["left", "right"] = "left" if name in _LEFT | _LONG else "right"
        table.add_column(
            _heading(name), justify=justify, no_wrap=True, overflow="ellipsis", width=column_width
        )
    for index in range(shown.height):
        texts = (
            shorten(cells[name][index], w) if name in _LONG else cells[name][index]
            for name, w in widths.items()
        )
        table.add_row(*(Text(text) for text in texts))
    return table


def _widths(cells: dict[str, list[str]], width: int) -> dict[str, int]:
    """Widths of the columns that fit: the long ones share what the others leave."""
    full = {name: max(len(_heading(name)), *map(len, texts)) for name, texts in cells.items()}
    for name in _FIRST_TO_GO:
        least = sum(min(w, _MIN_LONG_WIDTH) if n in _LONG else w for n, w in full.items())
        if least + _SPACE * len(full) <= width:
            break
        full.pop(name, None)
    long = sorted((name for name in full if name in _LONG), key=lambda name: full[name])
    left = width - sum(full.values()) + sum(full[name] for name in long) - _SPACE * len(full)
    for position, name in enumerate(long):
        share = max(left // (len(long) - position), _MIN_LONG_WIDTH)
        full[name] = min(full[name], share)
        left -= full[name]
    return full


def _preamble(result: Result) -> list[str]:
    extra = result.extra
    lines: list[str] = []
    if result.command == "info":
        lines += _capture_lines(extra)
    if isinstance(extra.get("lanes"), pl.DataFrame):
        # The busiest lanes come first; the rest is in the other formats.
        lines += [
            f"{lane['lane']}: {lane['nest']}"
            for lane in extra["lanes"].head(8).iter_rows(named=True)
        ]
    if extra.get("summary"):
        lines += list(extra["summary"])
    return lines


def _capture_lines(extra: dict[str, Any]) -> list[str]:
    capture = extra["capture"]
    facts = [
        f"nsys {capture['nsys_version']}" if capture["nsys_version"] else "nsys version unknown",
        f"schema {capture['schema_version']}" if capture["schema_version"] else "no schema version",
    ]
    if capture["start_utc"]:
        facts.append(f"started {capture['start_utc']}")
    if capture["duration_ns"]:
        facts.append(f"recorded {format_ns(capture['duration_ns'])}")
    lines = [", ".join(facts)]
    rows = ", ".join(f"{n:,} {t}" for t, n in extra["tables"].items() if n)
    lines.append(f"rows: {rows or 'none'}")
    for table, reasons in extra["dropped"].items():
        told = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in reasons.items())
        lines.append(f"dropped from {table}: {told}")
    absent = [s["table"] for s in extra["skipped"] if s["reason"] == "not in the export"]
    if absent:
        lines.append(f"not captured: {', '.join(absent)}")
    lines += [
        f"skipped {s['table']}: {s['reason']}; {s['lost']}"
        for s in extra["skipped"]
        if s["reason"] != "not in the export"
    ]
    return lines


def _heading(name: str) -> str:
    if name in _HEADINGS:
        return _HEADINGS[name]
    return name.removesuffix("_ns").removesuffix("_id").replace("_", " ")


def _cell(name: str, row: dict[str, Any], origin_ns: int) -> str:
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
    if name.endswith("share") or name == "utilization":
        return format_share
    if name in ("kernels", "memcpys", "memsets", "calls", "occurrences", "length"):
        return format_count
    return _plain


def _plain(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list):
        return " ".join(_item(v) for v in value)
    return str(value)


def _item(value: Any) -> str:
    if isinstance(value, dict):
        times = value.get("times")
        name = value.get("name") or value.get("pattern")
        return f"({name})x{times}" if times else str(name)
    return str(value)


def _printable(text: str) -> str:
    # Names come from strangers: nothing of them may move the cursor or colour the terminal.
    return "".join(c if c.isprintable() else " " for c in text)
