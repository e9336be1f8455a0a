from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.units import (
    format_bytes,
    format_count,
    format_ns,
    format_rate,
    format_share,
)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (999_499, "999 µs"),
        (999_700, "1.00 ms"),
        (1_234_567, "1.23 ms"),
        (12_345_678, "12.3 ms"),
        (969_447_605, "969 ms"),
        (999_600_000, "1.00 s"),
        (7_811_607_251, "7.81 s"),
        (155_000_000_000, "155 s"),
        (-1_500, "-1.50 µs"),
        (None, "—"),
    ],
)
def test_durations(ns: int | None, text: str) -> None:
    assert format_ns(ns) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (1, "100 %"), (0.00001, "<0.1 %"), (0.99999, ">99.9 %"), (0.342, "34.2 %")],
)
def test_shares_never_round_to_none_or_all(share: float, text: str) -> None:
    assert format_share(share) == text


def test_null_is_a_dash_everywhere() -> None:
    formats = (format_ns, format_bytes, format_count, format_rate, format_share)
    assert [f(None) for f in formats] == ["—"] * 5


@given(st.integers(min_value=0, max_value=10**15))
def test_no_more_than_four_characters_before_the_unit_up_to_hours(ns: int) -> None:
    number, _, unit = format_ns(ns).partition(" ")
    assert unit in {"ns", "µs", "ms", "s"}
    assert float(number.replace(",", "")) < 1000 or unit == "s"


def test_bytes_and_rates() -> None:
    assert format_bytes(65_536) == "64.0 KiB"
    assert format_bytes(8) == "8 B"
    assert format_rate(24.94) == "24.9 GB/s"
    assert format_rate(0.00054) == "0.54 MB/s"
    assert format_rate(0) == "0.00 GB/s"
