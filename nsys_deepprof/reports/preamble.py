"""What stands above a table: what it is about, as a few lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof.units import format_ns

if TYPE_CHECKING:
    from nsys_deepprof.result import Result

SHOWN_LANES = 8
"""The busiest lanes come first; the rest is in the other formats."""

SHOWN_SLOW = 5

MAX_NEST = 240
"""Characters of a loop nest."""


def preamble(result: Result) -> list[str]:
    """Lines on the capture (of `info`), the loop nests of lanes, and the analysis's own summary."""
    extra = result.extra
    lines: list[str] = []
    if result.command == "info":
        lines += _capture_lines(extra)
    if isinstance(extra.get("lanes"), pl.DataFrame) and "nest" in extra["lanes"].columns:
        lanes = extra["lanes"].head(SHOWN_LANES)
        # What repeats beside a main lane without iterations (collectives, copies) is none either.
        iterating = set(result.frame["gpu"]) if "gpu" in result.frame.columns else set()
        lines += [
            f"{row['lane']}: {_repeats(row, 'iterations' if row['gpu'] in iterating else 'turns')}"
            for row in lanes.iter_rows(named=True)
        ]
        more = extra["lanes"].height - lanes.height
        if more:
            lines.append(f"and {more:,} more lanes (--format json has them)")
    if "outlier" in result.frame.columns:
        lines += _slow_iterations(result.frame)
    return [*lines, *extra.get("summary", ())]


def _slow_iterations(frame: pl.DataFrame) -> list[str]:
    """The longest of the slow ones: a table's first rows may hold none of them."""
    every = frame.filter("outlier").sort("duration_ns", descending=True)
    slow = every.head(SHOWN_SLOW)
    more = every.height - slow.height
    return [
        f"slow: iteration {row['index']} on GPU {row['gpu']}, "
        f"{format_ns(row['duration_ns'])}: {row['explanation']}"
        for row in slow.iter_rows(named=True)
    ] + ([f"and {more:,} more slow ones"] if more else [])


def _repeats(lane: dict[str, Any], turns: str) -> str:
    """`28 iterations, median 18.7 ms, 2 slow; loop nest ...`, as far as the lane has them."""
    nest = lane["nest"]
    if len(nest) > MAX_NEST:
        nest = f"{nest[: MAX_NEST - 4]} ..."
    loops = f"loop nest {nest}" if ")x" in nest else "no loops"
    if not lane.get("iterations"):
        return loops
    slow = f", {lane['outliers']:,} slow" if lane["outliers"] else ""
    median = format_ns(lane["median_ns"])
    return f"{lane['iterations']:,} {turns}, median {median}{slow}; {loops}"


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
    rows = ", ".join(f"{t} {n:,}" for t, n in extra["tables"].items() if n)
    lines.append(f"rows: {rows or 'none'}")
    for table, reasons in extra["dropped"].items():
        told = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in reasons.items())
        lines.append(f"dropped from {table}: {told}")
    absent = [
        s["table"].removeprefix("CUPTI_ACTIVITY_KIND_")
        for s in extra["skipped"]
        if s["reason"] == "not in the export" and not s["lost"].startswith("nothing is lost")
    ]
    if absent:
        lines.append(f"not in the export (--format json says what is lost): {', '.join(absent)}")
    lines += [
        f"skipped {s['table']}: {s['reason']}; {s['lost']}"
        for s in extra["skipped"]
        if s["reason"] != "not in the export"
    ]
    return lines
