"""Numbers to words: the only place where nanoseconds, bytes and shares become text."""

from __future__ import annotations

_TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_BYTE_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def format_ns(duration_ns: float | None) -> str:
    """A duration with three significant digits: `1.23 ms`; an em dash for None."""
    if duration_ns is None:
        return "—"
    for size, unit in _TIME_UNITS:
        # 999.5 µs would print as "1000 µs": it belongs to the next unit.
        if abs(duration_ns) >= size * 0.9995:
            return f"{_three_digits(duration_ns / size)} {unit}"
    return f"{duration_ns:.0f} ns"


def format_bytes(size_bytes: float | None) -> str:
    """A size in binary units: `12.4 MiB`; an em dash for None."""
    if size_bytes is None:
        return "—"
    for size, unit in _BYTE_UNITS:
        if abs(size_bytes) >= size:
            return f"{_three_digits(size_bytes / size)} {unit}"
    return f"{size_bytes:.0f} B"


def format_share(share: float | None) -> str:
    """A share of one as a percentage: `34.2 %`; an em dash for None.

    Never rounds a part to 0 % or to 100 %: those two mean none and all.
    """
    if share is None:
        return "—"
    percent = share * 100
    if percent == 0:
        return "0 %"
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.1f} %" if percent != 100 else "100 %"


def format_count(count: float | None) -> str:
    """A count with thousands separated: `1,234`; an em dash for None."""
    return "—" if count is None else f"{count:,.0f}"


def format_rate(gigabytes_per_s: float | None) -> str:
    """A throughput in decimal units: `24.9 GB/s`, `84.1 MB/s`; an em dash for None."""
    if gigabytes_per_s is None:
        return "—"
    if 0 < abs(gigabytes_per_s) < 0.1:
        return f"{_three_digits(gigabytes_per_s * 1000)} MB/s"
    return f"{_three_digits(gigabytes_per_s)} GB/s"


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"
