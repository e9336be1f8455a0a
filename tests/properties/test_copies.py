"""Costs of copies, and kernels that are alone, against slow twins on small random runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.analyses.lost_time import lost_time
from nsys_deepprof.copies import DEVICE_ONLY_KINDS, SMALL_BYTES, costed_copies, train_of_copy

CLOCKS = 5
"""How much earlier than a copy's end the synchronise for it may return in these small runs."""

COPY_CALLS = ["cudaMemcpy_v3020", "cudaMemcpyAsync_v3020", "cuMemcpyHtoDAsync_v2_ptsz"]
OTHER_CALLS = {
    "cudaStreamSynchronize_v3020": "sync",
    "cudaEventSynchronize_v3020": "sync",
    "cudaLaunchKernel_v7000": "launch",
    "cudaGraphLaunch_v10000": "launch",
    "cudaMalloc_v3020": "block",
    "cudaMallocAsync_v11020": "no",
    "cudaMemset_v3020": "block",
    "cudaEventRecord_v3020": "no",
    "cudaStreamWaitEvent_v3020": "no",
}
KINDS = ["HtoD", "DtoH", "DtoD", "HtoH"]
MEMORY = ["pageable", "pinned", "device"]


@dataclass(frozen=True)
class Copy:
    start: int
    length: int
    call: tuple[int, int] | None
    api: str
    tid: int
    kind: str
    src: str
    dst: str
    size: int

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def pageable(self) -> bool:
        return "Async" in self.api and "pageable" in (self.src, self.dst)

    @property
    def synchronous(self) -> bool:
        return "Async" not in self.api and self.kind not in DEVICE_ONLY_KINDS


COPIES = st.lists(
    st.builds(
        Copy,
        st.integers(1, 150),
        st.integers(0, 20),
        st.one_of(st.none(), st.tuples(st.integers(1, 150), st.integers(0, 20))),
        st.sampled_from(COPY_CALLS),
        st.integers(1, 2),
        st.sampled_from(KINDS),
        st.sampled_from(MEMORY),
        st.sampled_from(MEMORY),
        st.sampled_from([4, SMALL_BYTES - 1, SMALL_BYTES, 1 << 24]),
    ),
    min_size=1,
    max_size=6,
)
Call = tuple[int, int, int, str]
CALLS = st.lists(
    st.tuples(
        st.integers(1, 180), st.integers(0, 40), st.integers(1, 2), st.sampled_from([*OTHER_CALLS])
    ),
    max_size=8,
)
KERNELS = st.lists(
    st.tuples(st.integers(1, 150), st.integers(0, 25), st.sampled_from("abc"), st.integers(7, 8)),
    max_size=6,
)


Kernel = tuple[int, int, str, int]


def export(copies: list[Copy], calls: list[Call], kernels: list[Kernel]) -> Export:
    built = Export()
    for number, copy in enumerate(copies, start=1):
        if copy.call is not None:
            start, length = copy.call
            built.api(start, start + length, 1000, copy.tid, number, copy.api)
        built.copy(
            copy.start, copy.end, 0, 7, number, 1000, copy.size, copy.kind, copy.src, copy.dst
        )
    for number, (start, length, tid, name) in enumerate(calls, start=1_000):
        built.api(start, start + length, 1000, tid, number, name)
    for start, length, name, stream in kernels:
        built.kernel(start, start + length, 0, stream, 900, name=name)
    return built


def awaiting(copy: Copy, copies: list[Copy], calls: list[Call]) -> tuple[int, int] | None:
    """The synchronise that awaits the copy, by the definition."""
    assert copy.call is not None
    returned = sum(copy.call)
    after = [(s, s + n, OTHER_CALLS[name]) for s, n, tid, name in calls if tid == copy.tid]
    for other in copies:
        if other.call is not None and other.tid == copy.tid:
            # A copy inside the device blocks by its name, as far as an observer of calls can tell.
            blocks = other.pageable or "Async" not in other.api
            after.append((other.call[0], sum(other.call), "block" if blocks else "no"))
    later = sorted(c for c in after if c[0] >= returned and c[2] != "no")
    if not later:
        return None
    first = [c for c in later if c[:2] == later[0][:2]]
    start, end, kind = first[0] if len({c[2] for c in first}) == 1 else (0, 0, "ambiguous")
    if kind == "ambiguous":
        return (-1, -1)
    covers = start <= copy.end <= end + CLOCKS
    return (start, end) if kind == "sync" and covers else None


@given(COPIES, CALLS, KERNELS)
@settings(max_examples=200, deadline=None)
def test_every_copy_costs_what_the_definitions_say(
    copies: list[Copy], calls: list[Call], kernels: list[Kernel]
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("nsys_deepprof.copies.CLOCKS_NS", CLOCKS)
        trace = nd.open_trace(export(copies, calls, kernels).write(Path(folder) / "x.sqlite"))
        got = costed_copies(trace)
    ordered = sorted(copies, key=lambda c: c.start)
    for copy, row in zip(ordered, got.iter_rows(named=True), strict=True):
        assert (row["start_ns"], row["end_ns"], row["kind"]) == (copy.start, copy.end, copy.kind)
        exposed = sum(
            not any(s <= t < s + n for s, n, _, _ in kernels) for t in range(copy.start, copy.end)
        )
        assert row["exposed_ns"] == exposed
        assert row["small"] == (copy.size < 65_536)
        assert row["throughput_gbps"] == (copy.size / copy.length if copy.length else None)
        if copy.call is None:
            unknown = {row[c] for c in ("blocking", "host_blocked_ns", "awaited_ns", "api")}
            assert unknown == {None}
            continue
        wait = awaiting(copy, copies, calls)
        if wait == (-1, -1):
            continue
        words = [
            *(["sync_api"] if copy.synchronous else []),
            *(["pageable"] if copy.pageable else []),
            *(["awaited"] if wait else []),
        ]
        assert row["blocking"] == words
        awaited_ns = wait[1] - max(wait[0], sum(copy.call)) if wait else 0
        assert row["awaited_ns"] == awaited_ns
        in_call = copy.call[1] if copy.synchronous or copy.pageable else 0
        assert row["host_blocked_ns"] == in_call + awaited_ns


@given(COPIES, KERNELS)
@settings(max_examples=100, deadline=None)
def test_a_kernel_is_alone_where_nothing_else_runs(
    copies: list[Copy], kernels: list[Kernel]
) -> None:
    with TemporaryDirectory() as folder:
        trace = nd.open_trace(export(copies, [], kernels).write(Path(folder) / "x.sqlite"))
        rows = {row["name"]: row for row in nd.kernels(trace).frame.iter_rows(named=True)}
    assert set(rows) == {name for _, _, name, _ in kernels}
    for name, row in rows.items():
        mine = [n for _, n, other, _ in kernels if other == name]
        assert (row["calls"], row["total_ns"]) == (len(mine), sum(mine))
        assert (row["min_ns"], row["max_ns"]) == (min(mine), max(mine))
        alone = 0
        for t in range(1, 200):
            running = {other for s, n, other, _ in kernels if s <= t < s + n}
            copying = any(c.start <= t < c.end for c in copies)
            alone += running == {name} and not copying
        assert row["exposed_ns"] == alone


@given(COPIES, CALLS, KERNELS)
@settings(max_examples=100, deadline=None)
def test_lost_time_is_the_idle_and_exposed_copy_time_once(
    copies: list[Copy], calls: list[Call], kernels: list[Kernel]
) -> None:
    with TemporaryDirectory() as folder:
        trace = nd.open_trace(export(copies, calls, kernels).write(Path(folder) / "x.sqlite"))
        gpu = nd.info(trace).frame.row(0, named=True)
        pieces = lost_time(trace)
        found = nd.findings(trace)
    assert pieces["idle_ns"].sum() == gpu["idle_ns"]
    assert pieces["copy_ns"].sum() == gpu["copy_ns"]
    claimed = found.frame["recoverable_ns"].fill_null(0).sum()
    assert claimed <= gpu["idle_ns"] + gpu["copy_ns"]
    assert found.extra["recoverable_ns"] == claimed


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["HtoD", "DtoH", "kernel"]),
            st.sampled_from([1_000, 1_000_000, 1_000_001]),
            st.sampled_from([0, 1_000_000, 1_000_001]),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_trains_are_runs_of_short_copies(steps: list[tuple[str, int, int]]) -> None:
    built, now, runs = Export(), 1_000, []
    previous: tuple[str, int] | None = None
    for kind, length, gap in steps:
        start = now + gap
        now = start + length
        if kind == "kernel":
            built.kernel(start, now)
            previous = None
            continue
        built.copy(start, now, kind=kind)
        short = length <= 1_000_000
        joins = short and previous is not None and previous[0] == kind and gap <= 1_000_000
        if joins:
            runs[-1] += 1
        elif short:
            runs.append(1)
        previous = (kind, now) if short else None
    with TemporaryDirectory() as folder:
        trace = nd.open_trace(built.write(Path(folder) / "x.sqlite"))
        trains = nd.memcpy(trace).extra["trains"]
        member = train_of_copy(trace)
    assert sorted(trains["copies"].to_list()) == sorted(n for n in runs if n >= 3)
    assert member.drop_nulls().len() == sum(n for n in runs if n >= 3)
    assert isinstance(trains, pl.DataFrame)
