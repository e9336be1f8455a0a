"""What the page of ranks draws, as data, and what it says where there is nothing to draw."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.builder import Export
from nsys_deepprof import open_trace, ranks
from nsys_deepprof.reports.ranks_html import (
    DRAWN_CELLS,
    cells,
    columns,
    full_colour_ns,
    render,
    waits,
)

if TYPE_CHECKING:
    from pathlib import Path


def lag_frame(lags: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> pl.DataFrame:
    """`rank_iterations` of lags by rank and iteration, as far as the chart looks at it."""
    size, count = lags.shape
    return pl.DataFrame(
        {
            "rank": np.repeat(np.arange(size), count),
            "index": np.tile(np.arange(count), size),
            "own_ns": np.full(lags.size, 50_000),
            "lag_ns": lags.ravel(),
        }
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(1, 900), st.integers(0, 2**32 - 1))
def test_every_iteration_is_in_one_cell_of_each_rank(size: int, count: int, seed: int) -> None:
    lags = np.random.default_rng(seed).normal(0, 1_000, (size, count))
    found = cells(lag_frame(lags), 1_500.0)
    assert list(found) == list(range(size))
    for rank, row in found.items():
        assert [cell.column for cell in row] == list(range(len(row)))
        covered = [k for cell in row for k in range(cell.first, cell.last + 1)]
        assert covered == list(range(count))
        for cell in row:
            mean = lags[rank, cell.first : cell.last + 1].mean()
            assert cell.lag_ns == pytest.approx(mean)
            assert cell.strength == pytest.approx(min(abs(mean) / 1_500, 1))
            assert (cell.role == "mark-slow") == (cell.lag_ns > 0)


@pytest.mark.parametrize(("size", "count"), [(8, 20_000), (64, 5_000)])
def test_a_large_job_makes_a_small_chart(size: int, count: int) -> None:
    lags = np.zeros((size, count))
    lags[3] = 1_000
    lags[5, 40] = 1e9
    frame = lag_frame(lags)
    found = cells(frame, full_colour_ns(frame))
    assert sum(map(len, found.values())) <= DRAWN_CELLS
    # The hiccup of one iteration leaves the straggler to be seen.
    assert {cell.strength for cell in found[3]} == {1.0}
    assert {cell.strength for cell in found[0]} == {0.0}


def test_columns_of_imbalance_are_means_of_all_iterations() -> None:
    values = [0.1, 0.3, 0.2, 0.0, 0.4]
    rows = pl.DataFrame({"index": range(5), "imbalance": values})
    all_five, top = columns(rows, 5)
    assert [c.imbalance for c in all_five] == values
    assert [c.height for c in all_five] == pytest.approx([v / 0.4 for v in values])
    assert top == 0.4
    two, top = columns(rows, 2)
    assert [(c.first, c.last) for c in two] == [(0, 2), (3, 4)]
    assert [c.imbalance for c in two] == pytest.approx([0.2, 0.2])
    assert [c.height for c in two] == pytest.approx([1.0, 1.0])
    even, top = columns(pl.DataFrame({"index": [0, 1], "imbalance": [0.0, 0.001]}), 2)
    assert [c.height for c in even] == pytest.approx([0.0, 0.1])
    assert top == 0.01


def test_differences_of_nothing_look_like_nothing() -> None:
    lags = np.tile([[10.0], [-10.0]], (1, 20))
    frame = lag_frame(lags)
    found = cells(frame, full_colour_ns(frame))
    assert {cell.strength for row in found.values() for cell in row} == {10 / 500}


def test_parts_of_collectives_add_up() -> None:
    table = pl.DataFrame(
        {"rank": [0, 1], "collective_ns": [90, 70], "collective_wait_ns": [50, 30],
         "wait_ns": [20, 30]}
    )  # fmt: skip
    values = {rank: [ns for _, _, ns in parts] for rank, parts in waits(table).items()}
    assert values == {0: [40, 30, 20], 1: [40, 0, 30]}


def test_what_cannot_be_compared_is_said_and_not_drawn(tmp_path: Path) -> None:
    alone, none = Export(), Export().kernel(0, 1)
    for i in range(30):
        alone.kernel(100 * i, 100 * i + 50, name="abc"[i % 3])
    for name, export, told in (
        ("alone", alone, "One rank only"),
        ("none", none, "no iterations to compare"),
    ):
        text = render(ranks([open_trace(export.write(tmp_path / f"{name}.sqlite"))]))
        assert told in text
        assert text.count("Could not look.") >= 3
        assert "<rect" not in text
        assert not re.search(r"\bnan\b|\bNone\b", text)
