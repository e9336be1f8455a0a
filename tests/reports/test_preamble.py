"""The lines above a table."""

from __future__ import annotations

from typing import Any

import polars as pl

from nsys_deepprof.reports.preamble import MAX_NEST, preamble
from nsys_deepprof.result import Result


def lines(command: str, *, gpus: tuple[int, ...] = (), **extra: Any) -> list[str]:
    return preamble(Result(command, pl.DataFrame({"gpu": gpus}), extra))


def lanes(*nests: str) -> pl.DataFrame:
    names = [f"lane {n}" for n in range(len(nests))]
    return pl.DataFrame({"lane": names, "gpu": [0] * len(nests), "nest": nests})


def test_loop_nests_by_lane() -> None:
    assert lines("patterns", lanes=lanes("warm-up 2, (5, (9)x12)x60", "17")) == [
        "lane 0: loop nest warm-up 2, (5, (9)x12)x60",
        "lane 1: no loops",
    ]


def test_iterations_are_summed_up() -> None:
    found = pl.DataFrame(
        {
            "lane": ["a", "b", "c", "d"],
            "gpu": [0, 0, 0, 1],
            "nest": ["(5)x20", "(7)x20", "(1)x9", "(1)x111"],
            "iterations": [20, 20, 0, 111],
            "median_ns": [1_500_000.0, 2_000_000.0, None, 1_000.0],
            "outliers": [2, 0, None, 0],
        }
    )
    # GPU 1 has no iterations: what repeats beside its main lane is not called one.
    assert lines("iterations", gpus=(0, 0), lanes=found) == [
        "a: 20 iterations, median 1.50 ms, 2 slow; loop nest (5)x20",
        "b: 20 iterations, median 2.00 ms; loop nest (7)x20",
        "c: loop nest (1)x9",
        "d: 111 turns, median 1.00 µs; loop nest (1)x111",
    ]


def test_slow_iterations_are_told_longest_first() -> None:
    rows = [
        {
            "gpu": 0,
            "index": index,
            "duration_ns": index * 1_000_000,
            "outlier": index >= 3,
            "explanation": f"why {index}" if index >= 3 else None,
        }
        for index in range(10)
    ]
    got = preamble(Result("iterations", pl.DataFrame(rows)))
    slow = [f"slow: iteration {n} on GPU 0, {n}.00 ms: why {n}" for n in (9, 8, 7, 6, 5)]
    assert got == [*slow, "and 2 more slow ones"]


def test_many_lanes_are_counted_and_long_nests_cut() -> None:
    got = lines("patterns", lanes=lanes(*["(1)x9, " * 500] * 11))
    assert len(got) == 9
    assert got[-1] == "and 3 more lanes (--format json has them)"
    assert all(len(line) < MAX_NEST + 30 and line.endswith(" ...") for line in got[:-1])


def test_a_summary_is_repeated_as_it_is() -> None:
    assert lines("gaps", summary=["Idle for 5 ms."]) == ["Idle for 5 ms."]


def test_what_was_captured() -> None:
    capture = {"nsys_version": "2025.1", "schema_version": None, "start_utc": None}
    skipped = [
        {"table": "CUPTI_ACTIVITY_KIND_MEMCPY", "reason": "not in the export", "lost": "copies"},
        {"table": "OLD", "reason": "not in the export", "lost": "nothing is lost in newer ones"},
        {"table": "OSRT_API", "reason": "table OSRT_API has no column end", "lost": "OS calls"},
    ]
    got = lines(
        "info",
        capture=capture | {"duration_ns": 1_500_000_000},
        tables={"kernels": 1_234, "memcpys": None, "memsets": 0},
        dropped={"kernels": {"not_collected": 2}},
        skipped=skipped,
    )
    assert got == [
        "nsys 2025.1, no schema version, recorded 1.50 s",
        "rows: kernels 1,234",
        "dropped from kernels: 2 not collected",
        "not in the export (--format json says what is lost): MEMCPY",
        "skipped OSRT_API: table OSRT_API has no column end; OS calls",
    ]
