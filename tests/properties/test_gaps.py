"""Gaps against a painter that looks at every single nanosecond of small random runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.analyses.gaps import CAUSES, PART_COLUMNS
from nsys_deepprof.cuda_api import base_name

# Times are in steps of a microsecond, so that the 50 us in which a wait drains a queue fit in.
STEP = 1_000
DRAIN = 50

API_KINDS = {
    "cudaStreamSynchronize_v3020": "sync",
    "cudaMemcpy_v3020": "sync",
    "cudaMemset_v3020": "sync",
    "cudaMalloc_v3020": "alloc",
    "cuModuleLoadData": "load",
    "cudaEventRecord_v3020": "api",
    "cudaStreamWaitEvent_v3020": "api",
    "cudaLaunchKernel_v7000": "api",
}
ORDER = ("sync", "alloc", "load", "api", "profiler", "os")


@dataclass(frozen=True)
class Op:
    start: int
    length: int
    op: str
    call: tuple[int, int, int] | None
    name: str

    @property
    def end(self) -> int:
        return self.start + self.length


Row = tuple[int, int, int, str]

# A row from 0 to 0 was not collected: times begin at 1.
SPAN = st.tuples(st.integers(1, 160), st.integers(0, 40))
THREAD = st.integers(1, 2)


def rows(names: st.SearchStrategy[str], most: int) -> st.SearchStrategy[list[Row]]:
    one = st.tuples(SPAN, THREAD, names).map(lambda r: (r[0][0], r[0][0] + r[0][1], r[1], r[2]))
    return st.lists(one, max_size=most)


OPS = st.lists(
    st.builds(
        Op,
        st.integers(1, 200),
        st.integers(0, 25),
        st.sampled_from(["kernel", "copy", "memset", "migration"]),
        st.one_of(st.none(), st.tuples(st.integers(1, 200), st.integers(0, 30), THREAD)),
        st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=8,
)
API = rows(st.sampled_from(sorted(API_KINDS)), 8)
OS_CALLS = rows(st.sampled_from(["read", "poll"]), 4)
OVERHEADS = rows(st.sampled_from(["CUPTI Buffer flush", "Lazy Function Loading"]), 3)
RANGES = rows(st.sampled_from(["outer", "inner", "step"]), 5)


def export(
    ops: list[Op], api: list[Row], os_calls: list[Row], overheads: list[Row], ranges: list[Row]
) -> Export:
    built = Export()
    for number, op in enumerate(ops, start=1):
        at = (op.start * STEP, op.end * STEP)
        if op.call is not None and op.op != "migration":
            start, length, tid = op.call
            built.api(start * STEP, (start + length) * STEP, 1000, tid, number)
        if op.op == "kernel":
            built.kernel(*at, correlation=number, name=op.name)
        elif op.op == "copy":
            built.copy(*at, correlation=number)
        elif op.op == "memset":
            built.memset(*at, correlation=number)
        else:
            built.migration(*at)
    for number, (start, end, tid, name) in enumerate(api, start=1_000):
        built.api(start * STEP, end * STEP, 1000, tid, number, name)
    for start, end, tid, name in os_calls:
        built.os_call(start * STEP, end * STEP, 1000, tid, name)
    for start, end, tid, name in overheads:
        built.profiler_overhead(start * STEP, end * STEP, 1000, tid, name)
    for start, end, tid, name in ranges:
        built.nvtx(start * STEP, end * STEP, 59, 1000, tid, name)
    return built


def oracle(
    ops: list[Op], api: list[Row], os_calls: list[Row], overheads: list[Row], ranges: list[Row]
) -> list[dict[str, Any]]:
    """The definition, word by word, in steps of `STEP`."""
    first, last = min(op.start for op in ops), max(op.end for op in ops)
    busy = {t for op in ops for t in range(op.start, op.end)}
    idle = [t for t in range(first, last) if t not in busy]
    starts = [t for t in idle if t - 1 not in idle]
    calls = [
        *((s, e, tid, API_KINDS[name], name) for s, e, tid, name in api),
        *(
            (op.call[0], op.call[0] + op.call[1], op.call[2], "api", "cudaLaunchKernel_v7000")
            for op in ops
            if op.call is not None and op.op != "migration"
        ),
    ]
    found = []
    for a in starts:
        b = next(t for t in range(a, last + 1) if t not in idle)
        issuing = [
            (op.call[0], op.call[0] + op.call[1], op.call[2])
            for op in ops
            if op.start == b and op.call is not None and op.op != "migration"
        ]
        parts = dict.fromkeys(PART_COLUMNS, 0)
        drained = nvtx = None
        if not issuing:
            parts["unknown_ns"] = b - a
        else:
            s, e, tid = min(issuing)
            waits = [
                (end, name)
                for start, end, t, kind, name in calls
                if kind == "sync" and t == tid and start < a and a - DRAIN <= end <= s
            ]
            drained = {base_name(name) for end, name in waits if end == max(waits)[0]}
            if e <= a:
                parts["device_wait_ns"] = b - a
            else:
                for t in range(a, b):
                    parts[paint(t, s, tid, calls, os_calls, overheads)] += 1
            if s > a:
                middle = a * STEP + (s - a) * STEP // 2
                around = [
                    (start, -end, name)
                    for start, end, t, name in ranges
                    if t == tid and start * STEP <= middle < end * STEP
                ]
                nvtx = {name for st_, en, name in around if (st_, en) == max(around)[:2]}
        found.append(
            {
                "start_ns": a,
                "end_ns": b,
                **parts,
                "drained": drained,
                "nvtx": nvtx,
                "prev": prev_names(ops, a),
                "next": next_names(ops, b),
            }
        )
    return found


def shown(op: Op) -> str:
    return op.name if op.op == "kernel" else "Memset" if op.op == "memset" else "Memcpy"


def prev_names(ops: list[Op], a: int) -> set[str]:
    """What ended last when the gap began; of those that ended together, the last to start."""
    before = [op for op in ops if op.end <= a and op.start <= a]
    last = max((op.end, op.start) for op in before)
    return {shown(op) for op in before if (op.end, op.start) == last}


def next_names(ops: list[Op], b: int) -> set[str]:
    """What starts where the gap ends; of several, what was issued first."""
    there = [op for op in ops if op.start == b]
    issued = [op for op in there if op.call is not None and op.op != "migration"]
    if not issued:
        return {shown(op) for op in there}
    first = min((s, s + length, tid) for s, length, tid in (op.call for op in issued if op.call))
    return {
        shown(op)
        for op in issued
        if op.call and (op.call[0], op.call[0] + op.call[1], op.call[2]) == first
    }


def paint(
    t: int,
    s: int,
    tid: int,
    calls: list[tuple[int, int, int, str, str]],
    os_calls: list[Row],
    overheads: list[Row],
) -> str:
    if t >= s:
        return "launch_ns"
    doing = {kind for start, end, other, kind, _ in calls if other == tid and start <= t < end}
    if any(other == tid and start <= t < end for start, end, other, _ in overheads):
        doing.add("profiler")
    if any(other == tid and start <= t < end for start, end, other, _ in os_calls):
        doing.add("os")
    return next((f"{kind}_ns" for kind in ORDER if kind in doing), "host_ns")


def analysed(
    built: Export, check: Any, *, window: tuple[int, int] | None = None
) -> list[dict[str, Any]] | None:
    with TemporaryDirectory() as folder:
        trace = nd.open_trace(built.write(Path(folder) / "x.sqlite"))
        if window is not None:
            origin = trace.span_ns()[0]
            try:
                trace = nd.narrow(
                    trace,
                    from_ms=(window[0] * STEP - origin) / 1e6,
                    to_ms=(window[1] * STEP - origin) / 1e6,
                )
            except nd.UsageError:
                return None
        result = check(trace)
    return sorted(result.frame.iter_rows(named=True), key=lambda row: row["start_ns"])


every_gap = functools.partial(nd.gaps, min_gap_ns=0)


@given(OPS, API, OS_CALLS, OVERHEADS, RANGES)
@settings(max_examples=150, deadline=None)
def test_every_gap_is_split_as_defined(
    ops: list[Op],
    api: list[Row],
    os_calls: list[Row],
    overheads: list[Row],
    ranges: list[Row],
) -> None:
    want = oracle(ops, api, os_calls, overheads, ranges)
    got = analysed(export(ops, api, os_calls, overheads, ranges), every_gap)
    assert got is not None
    assert len(got) == len(want)
    for row, expected in zip(got, want, strict=True):
        assert row["start_ns"] == expected["start_ns"] * STEP
        assert row["end_ns"] == expected["end_ns"] * STEP
        parts = {column: row[column] for column in PART_COLUMNS}
        assert parts == {column: expected[column] * STEP for column in PART_COLUMNS}
        largest = max(parts.values())
        assert row["cause"] == next(c for c in CAUSES if parts[f"{c}_ns"] == largest)
        assert row["drained_by"] in (expected["drained"] or {None})
        assert row["nvtx"] in (expected["nvtx"] or {None})
        assert row["prev_op"].split()[0] in expected["prev"]
        assert row["next_op"].split()[0] in expected["next"]
        assert row["driver_load_ns"] + row["queue_full_ns"] <= row["profiler_ns"]
        assert row["launch_call_ns"] <= row["launch_ns"]


@given(OPS, API, OS_CALLS, st.integers(0, 200), st.integers(1, 120))
@settings(max_examples=100, deadline=None)
def test_a_window_cuts_gaps_and_their_parts(
    ops: list[Op], api: list[Row], os_calls: list[Row], start: int, length: int
) -> None:
    """What is inside of a window is what the painter paints there."""
    window = (start, start + length)
    whole = oracle(ops, api, os_calls, [], [])
    built = export(ops, api, os_calls, [], [])
    got = analysed(built, every_gap, window=window)
    if got is None:
        return
    inside = [g for g in whole if g["start_ns"] < window[1] and g["end_ns"] > window[0]]
    assert [(r["start_ns"], r["end_ns"]) for r in got] == [
        (max(g["start_ns"], window[0]) * STEP, min(g["end_ns"], window[1]) * STEP) for g in inside
    ]
    for row in got:
        assert sum(row[column] for column in PART_COLUMNS) == row["duration_ns"]
    if start + length > 240 and start == 0:
        totals = {c: sum(r[c] for r in got) for c in PART_COLUMNS}
        assert totals == {c: sum(g[c] for g in whole) * STEP for c in PART_COLUMNS}


@given(OPS, API, OS_CALLS, st.integers(2, 200))
@settings(max_examples=60, deadline=None)
def test_two_windows_that_meet_split_every_part(
    ops: list[Op], api: list[Row], os_calls: list[Row], cut: int
) -> None:
    built = export(ops, api, os_calls, [], [])
    parts = [
        analysed(built, every_gap, window=window) or [] for window in ((-10, cut), (cut, 1_000))
    ]
    whole = analysed(built, every_gap)
    assert whole is not None
    for column in PART_COLUMNS:
        assert sum(r[column] for rows in parts for r in rows) == sum(r[column] for r in whole)
