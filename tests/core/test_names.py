"""Names in the order that a reader expects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.names import by_number


@pytest.mark.parametrize(
    "ordered",
    [
        ["rank2", "rank10"],
        ["pid1 stream7", "pid1 stream20", "pid10 stream7"],
        ["7", "20", "a"],
        ["run", "run1", "run01b"],
    ],
)
def test_numbers_count_by_their_value(ordered: list[str]) -> None:
    assert sorted(sorted(ordered), key=by_number) == ordered


@given(st.lists(st.text(alphabet="ab019٣ /", max_size=6), max_size=8))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(sorted(names, key=by_number)) == sorted(names)
