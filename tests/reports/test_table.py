"""Tables for people: everything fits, no number is cut, nothing that a name holds gets out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nsys_deepprof as nd
from nsys_deepprof.reports import table
from nsys_deepprof.reports.cells import COLUMNS, NAMES, cell, heading
from nsys_deepprof.result import Result

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
HOSTILE = "\x1b[31mred\x07\r\n\u202egnp.exe"


def gap(**values: Any) -> dict[str, Any]:
    plain = {"gpu": 0, "start_ns": 5 * MS, "duration_ns": 1_234_567, "cause": "sync"}
    names = {"prev_op": "gemm", "next_op": "relu", "nvtx": None, "drained_by": None}
    return {**plain, **names, "iteration": 3, **values}


def render(*rows: dict[str, Any], width: int = 120, limit: int = 0, **extra: Any) -> str:
    return table.render(Result("gaps", pl.DataFrame(rows), extra), "run", limit=limit, width=width)


def test_values_have_units_and_starts_count_from_the_trace() -> None:
    lines = render(gap(start_ns=7 * MS), trace_start_ns=5 * MS).splitlines()
    assert lines[0] == "gaps: run"
    assert " ".join(lines[-1].split()) == "0 2.000 ms 1.23 ms sync — gemm relu — 3"


def test_warnings_and_notes_stand_above_the_rows() -> None:
    result = Result("gaps", pl.DataFrame([gap()]), {"warnings": ["cut short"]}, ("a note",))
    lines = table.render(result, "run", limit=0, width=120).splitlines()
    assert lines[:3] == ["gaps: run", "! cut short", "a note"]


def test_what_is_not_shown_is_counted() -> None:
    text = render(*[gap()] * 1_200, limit=5)
    assert text.endswith("5 of 1,200 rows (--limit 0 shows all)\n")
    assert text.count("sync") == 5


def test_no_rows_is_no_table() -> None:
    empty = pl.DataFrame(schema={"gpu": pl.Int64, "cause": pl.String})
    text = table.render(Result("gaps", empty, {}, ("nothing ran",)), "run", limit=0, width=80)
    assert text == "gaps: run\nnothing ran\n"


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_names_cannot_leave_their_cell(width: int) -> None:
    text = render(gap(prev_op=HOSTILE * 50, nvtx=HOSTILE), width=width, warnings=[HOSTILE])
    assert all(c.isprintable() for line in text.splitlines() for c in line)
    assert all(len(line) <= width for line in text.splitlines())


@settings(deadline=None)
@given(
    st.sampled_from(sorted(COLUMNS.keys() - {"info"})),
    st.integers(40, 220),
    st.lists(st.integers(0, 10**15), min_size=1, max_size=4),
    st.text("abc<>:, ", min_size=1, max_size=300),
)
def test_it_fits_and_no_number_is_cut(
    command: str, width: int, numbers: list[int], name: str
) -> None:
    rows = [
        {c: name if c in NAMES - {"body"} else number for c in COLUMNS[command] if c != "body"}
        for number in numbers
    ]
    text = table.render(Result(command, pl.DataFrame(rows)), "run", limit=0, width=width)
    lines = text.splitlines()[1:]
    assert all(len(line) <= width for line in lines)
    headings = re.split(r"\s{2,}", lines[0].strip())
    shown = [c for c in rows[0] if heading(c) in headings]
    assert shown
    for line, row in zip(lines[1:], rows, strict=True):
        for column in shown:
            if column not in NAMES:
                assert cell(column, row, 0) in line


def test_columns_without_a_value_go_before_any_other() -> None:
    columns = render(gap(iteration=None), width=60).splitlines()[1]
    assert "nvtx" not in columns
    assert "drained by" not in columns
    assert {"after", "before", "cause"} <= set(columns.split())


@pytest.mark.parametrize("width", [80, 132])
@pytest.mark.parametrize(
    "command",
    ["info", "patterns", "iterations", "gaps", "memcpy", "kernels", "launches", "communication"],
)
def test_real_rows_fit(command: str, width: int, each_real_trace: Path) -> None:
    result = getattr(nd, command)(nd.open_trace(each_real_trace))
    text = table.render(result, "run", limit=20, width=width)
    assert all(len(line) <= width for line in text.splitlines())
