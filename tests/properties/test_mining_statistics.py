"""Medians by position and exact variants, against plain Python."""

from __future__ import annotations

import statistics

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_deepprof.mining.outliers import grouped_median, grouped_quantiles
from nsys_deepprof.mining.turns import Turns
from nsys_deepprof.mining.variants import variant_numbers


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**12)), max_size=60))
def test_medians_by_group(rows: list[tuple[int, int]]) -> None:
    group = np.array([g for g, _ in rows], np.int32)
    values = np.array([v for _, v in rows], np.int64)
    found = grouped_median(group, values, 6)
    for number in range(6):
        mine = [v for g, v in rows if g == number]
        assert found[number] == (statistics.median(mine) if mine else 0)
    shares = (0.05, 0.5, 0.95)
    rows_of = grouped_quantiles(group, values, 6, shares)
    for share, row in zip(shares, rows_of.tolist(), strict=True):
        for number in range(6):
            mine = sorted(v for g, v in rows if g == number)
            assert row[number] == (mine[round((len(mine) - 1) * share)] if mine else 0)


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple), min_size=1, max_size=30
    )
)
def test_variants_are_exact_contents_by_frequency(contents: list[tuple[int, ...]]) -> None:
    symbols = np.array([s for content in contents for s in content], np.int32)
    stop = np.cumsum([len(content) for content in contents])
    first = np.r_[0, stop[:-1]]
    turns = Turns(first, stop, np.arange(len(contents)), 0, "start")
    numbers = variant_numbers(symbols, turns).tolist()
    order = sorted(dict.fromkeys(contents), key=lambda c: (-contents.count(c), contents.index(c)))
    assert numbers == [order.index(content) for content in contents]
