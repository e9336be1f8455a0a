"""The trace generator: its truth is checked against the rows by slow and obvious counting."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from bisect import bisect_right
from collections import defaultdict
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fixtures import instructions as isa
from fixtures.accounts import PARTS
from fixtures.builder import Export
from fixtures.generator import execute, generate, generate_job, joined
from fixtures.generator import main as write_scenario
from fixtures.make import TRAIN, main
from fixtures.names import unseen
from fixtures.nest import is_exact, loop, loop_spans, nest_size, nest_text
from fixtures.scenarios import ACCURACY, SCENARIOS, STALLS, WITHOUT_ITERATIONS, big, job, pair
from fixtures.schema import GENERATIONS
from fixtures.stalls import GAP_CAUSES, KINDS, planted, stalled
from fixtures.steps import Style
from fixtures.training import training

if TYPE_CHECKING:
    from pathlib import Path

    from fixtures.truth import Truth

Interval = tuple[int, int]
SYNC_CALLS = {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
              "cudaMemcpy", "cudaMemset"}  # fmt: skip
ALLOC_CALLS = {"cudaMalloc", "cudaFree"}
LOAD_CALLS = {"cuLibraryLoadData"}


class Trace:
    """Rows of an export as plain Python, for oracles."""

    def __init__(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            self.connection = connection
            names = dict(connection.execute("SELECT id, value FROM StringIds"))
            self.kernels = self._rows(
                "SELECT start, end, globalPid, correlationId, streamId, demangledName"
                " FROM CUPTI_ACTIVITY_KIND_KERNEL"
            )
            self.kernels = [(*row[:5], names[row[5]]) for row in self.kernels]
            self.copies = self._rows(
                "SELECT start, end, globalPid, correlationId, copyKind, srcKind, dstKind"
                " FROM CUPTI_ACTIVITY_KIND_MEMCPY"
            )
            self.graphs = self._rows(
                "SELECT start, end, globalPid, correlationId FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
            )
            self.memsets = self._rows(
                "SELECT start, end, globalPid, correlationId FROM CUPTI_ACTIVITY_KIND_MEMSET"
            )
            self.api = [
                (*row[:4], names[row[4]].split("_v")[0])
                for row in self._rows(
                    "SELECT start, end, globalTid, correlationId, nameId"
                    " FROM CUPTI_ACTIVITY_KIND_RUNTIME"
                )
            ]
            self.os = self._rows("SELECT start, end, globalTid FROM OSRT_API")
            self.profiler = self._rows("SELECT start, end, globalTid FROM PROFILER_OVERHEAD")

    def _rows(self, query: str) -> list[Any]:
        try:
            return self.connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []

    def lane(self, pid: int, stream: int = 7) -> list[Any]:
        rows = [k for k in self.kernels if k[2] >> 24 & 0xFFFFFF == pid and k[4] == stream]
        return sorted(rows)


def overlap(rows: list[Interval], since: int, until: int) -> int:
    """Time of rows in order, none inside another, between two moments."""
    first = bisect_right(rows, since, key=lambda row: row[1])
    total = 0
    for start, end in rows[first:]:
        if start >= until:
            break
        total += min(end, until) - max(start, since)
    return total


def oracle_gaps(trace: Trace) -> list[tuple[int, int, dict[str, int]]]:
    """Idle gaps of the only GPU and their parts, straight from the definition."""
    calls = {(tid >> 24, c): (start, end, tid) for start, end, tid, c, _ in trace.api}
    pageable = {(pid >> 24, c) for _, _, pid, c, *kinds in trace.copies if 0 in kinds[1:]}
    operations = [
        (start, end, None if unified else calls.get((pid >> 24, c)))
        for start, end, pid, c, unified in (
            [(*k[:4], False) for k in trace.kernels]
            + [(*m[:4], m[4] in (11, 12, 13)) for m in trace.copies]
            + [(*m[:4], False) for m in trace.memsets + trace.graphs]
        )
    ]
    operations.sort(key=lambda o: (o[0], o[2] is None, o[2] or ()))
    by_thread: dict[int, dict[str, list[Interval]]] = defaultdict(lambda: defaultdict(list))
    for start, end, tid, c, name in trace.api:
        part = "api"
        if name in SYNC_CALLS or (tid >> 24, c) in pageable:
            part = "sync"
        elif name in ALLOC_CALLS:
            part = "alloc"
        elif name in LOAD_CALLS:
            part = "load"
        by_thread[tid][part].append((start, end))
    for part, rows in (("os", trace.os), ("profiler", trace.profiler)):
        for start, end, tid in rows:
            by_thread[tid][part].append((start, end))
    for parts_of_thread in by_thread.values():
        for rows in parts_of_thread.values():
            rows.sort()
    gaps = []
    reach = operations[0][1]
    for start, end, call in operations:
        if start > reach:
            parts = dict.fromkeys(PARTS, 0)
            if call is None:
                parts["unknown"] = start - reach
            elif call[1] <= reach:
                parts["device_wait"] = start - reach
            else:
                until = min(max(call[0], reach), start)
                parts["launch"] = start - until
                for part, rows in by_thread[call[2]].items():
                    parts[part] = overlap(rows, reach, until)
                parts["host"] = start - reach - sum(parts.values())
            gaps.append((reach, start, parts))
        reach = max(reach, end)
    return gaps


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- nests


def test_nest_text_and_spans() -> None:
    nest = (17, loop(60, 5, loop(12, 9), 7, loop(12, 13), 30))
    assert nest_text(nest) == "17, (5, (9)x12, 7, (13)x12, 30)x60"
    assert nest_size(nest) == 17 + 60 * (5 + 108 + 7 + 156 + 30)
    inner = (3, loop(2, loop(2, 1)))
    assert loop_spans(inner) == {(3, 7, 2), (3, 5, 1), (5, 7, 1)}


@pytest.mark.parametrize(
    ("text", "nest", "expected"),
    [
        ("xababy", (1, loop(2, 2), 1), True),
        ("babab", (1, loop(2, 2)), False),  # as well (ba)x2, then b
        ("xabcabc", (1, loop(2, 3)), True),
        ("xaabaab", (1, loop(2, 3)), False),  # aa is a loop that was not planted
        ("xaabaaby", (1, loop(2, loop(2, 1), 1), 1), True),
        ("abcd", (4,), True),
    ],
)
def test_exactness(text: str, nest: Any, expected: bool) -> None:
    symbols = np.array([ord(c) for c in text])
    assert is_exact(symbols, loop_spans(nest)) is expected


@pytest.mark.parametrize("name", ["clean", "accumulate", "deep", "nosync", "nccl"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_nest_is_the_only_one(name: str, seed: int, tmp_path: Path) -> None:
    truth = generate(ACCURACY[name](seed), tmp_path / "x.sqlite")
    lane = Trace(tmp_path / "x.sqlite").lane(truth.lanes[0].pid)
    plan = ACCURACY[name](seed)
    assert plan.nest is not None
    outer = plan.nest[1]
    assert isinstance(outer, tuple)
    # Two turns between the last kernel of the warm-up and the first after the loop.
    size = nest_size(outer.body)
    names = [row[5] for row in lane]
    first = truth.warmup_kernels
    turns = names[first : first + 2 * size]
    ids = {name: i for i, name in enumerate(dict.fromkeys(names))}
    symbols = np.array([ids[name] for name in turns])
    assert is_exact(symbols, loop_spans((loop(2, *outer.body),)))
    assert names[first - 1] != turns[-1]
    assert names[first + outer.most * size] != turns[0]
    assert turns * (outer.most // 2) == names[first : first + outer.most // 2 * 2 * size]


# ---- iterations


@pytest.mark.parametrize("name", sorted(ACCURACY))
def test_iteration_truth_matches_rows(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    truth = generate(ACCURACY[name](5), path)
    lane = Trace(path).lane(truth.lanes[0].pid)
    (known,) = truth.lanes
    assert known.kernels == len(lane)
    for level in known.levels:
        assert level.starts_ns == [lane[i][0] for i in level.first_events]
        assert level.starts_ns == sorted(level.starts_ns)
    level = known.iterations
    edges = [*level.first_events, len(lane)]
    assert all(n <= b - a for n, (a, b) in zip(level.kernels, pairwise(edges), strict=True))
    assert level.end_ns in {row[1] for row in lane}
    if name in ("clean", "nccl", "slow", "accumulate", "few", "nosync", "deep"):
        assert level.first_events[0] == truth.warmup_kernels
        first = {lane[i][5] for i in level.first_events}
        assert len(first) == 1
    if not truth.perturbed and name not in ("slow", "interleaved"):
        assert truth.period is not None
        assert truth.period[0] <= min(level.kernels) <= max(level.kernels) <= truth.period[1]


def test_accumulation_has_two_levels(tmp_path: Path) -> None:
    truth = generate(training(seed=1, style=Style(accumulate=4), iterations=6, layers=5))
    outer, inner = truth.lanes[0].levels
    assert (outer.unit, inner.unit) == ("iteration", "micro-step")
    assert len(inner.starts_ns) == 4 * len(outer.starts_ns)
    assert inner.first_events[::4] == outer.first_events


def test_noise_is_counted(tmp_path: Path) -> None:
    clean = generate(training(seed=4, layers=6, iterations=30))
    noisy = generate(training(seed=4, layers=6, iterations=30, noise=0.02), tmp_path / "x.sqlite")
    made = noisy.perturbed
    total = clean.lanes[0].kernels
    assert noisy.lanes[0].kernels == total - made["dropped"] + made["added"]
    assert 0.015 * total < sum(made.values()) < 0.025 * total
    names = [row[5] for row in Trace(tmp_path / "x.sqlite").lane(noisy.lanes[0].pid)]
    others = {unseen(i).demangled for i in range(40)}
    assert sum(name in others for name in names) == made["substituted"] + made["added"]


def test_second_loop_is_on_the_same_lane(tmp_path: Path) -> None:
    truth = generate(ACCURACY["interleaved"](2), tmp_path / "x.sqlite")
    lane = Trace(tmp_path / "x.sqlite").lane(truth.lanes[0].pid)
    (level,) = truth.second_loop[0].levels
    size = level.kernels[0]
    assert len(level.starts_ns) > 20
    bodies = {tuple(row[5] for row in lane[i : i + size]) for i in level.first_events}
    assert len(bodies) == 1
    assert truth.second_loop[0].stream_id == truth.lanes[0].stream_id


@pytest.mark.parametrize("name", sorted(WITHOUT_ITERATIONS))
def test_no_levels_without_loops(name: str) -> None:
    truth = generate(WITHOUT_ITERATIONS[name](1))
    assert truth.lanes[0].levels == []
    assert truth.period is None


def test_no_idle_at_all() -> None:
    (state,) = generate(ACCURACY["nosync"](0)).states_ns
    assert state["idle_ns"] == 0


# ---- rows


@pytest.mark.parametrize("name", ["clean", "nccl", "serving", "mixed", "demo"])
def test_rows_could_be_real(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    generate(SCENARIOS[name](3), path)
    trace = Trace(path)
    calls: dict[tuple[int, int], list[Any]] = defaultdict(list)
    by_thread: dict[int, list[Any]] = defaultdict(list)
    for start, end, tid, correlation, api in trace.api:
        calls[tid >> 24, correlation].append((start, end, api))
        by_thread[tid].append((start, end))
    assert all(len(rows) == 1 for rows in calls.values())
    missing = 0
    for start, end, pid, correlation, *_ in trace.kernels:
        assert start < end
        if (pid >> 24, correlation) in calls:
            assert calls[pid >> 24, correlation][0][0] < start
        else:
            missing += 1
    assert missing == (5 if name == "mixed" else 0)
    for rows in by_thread.values():
        rows.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(rows))
    for stream in (7, 17):
        lane = trace.lane(trace.kernels[0][2] >> 24 & 0xFFFFFF, stream)
        assert all(a[1] <= b[0] for a, b in pairwise(lane))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_has_the_same_events(generation: str, tmp_path: Path) -> None:
    plan = training(seed=2, iterations=5, layers=3, ranks=2, style=Style(nvtx="steps", comm=True))
    truth = generate(plan, tmp_path / "x.sqlite", generation=generation)
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection:
        kernels = connection.execute(
            "SELECT count(*), count(DISTINCT globalPid), sum(end - start)"
            " FROM CUPTI_ACTIVITY_KIND_KERNEL"
        ).fetchone()
        ranges = connection.execute("SELECT count(*), max(end) FROM NVTX_EVENTS").fetchone()
    assert kernels[1] == 2
    assert kernels[0] >= 2 * truth.lanes[0].kernels
    assert ranges[0] == 2 * 5 * 4
    expected = generate(plan, tmp_path / "y.sqlite")
    assert expected.states_ns == truth.states_ns


@pytest.mark.parametrize("nvtx_text", ["text", "textId"])
def test_ranges_nest_and_hold_their_kernels(nvtx_text: str, tmp_path: Path) -> None:
    plan = training(seed=2, iterations=3, layers=3, style=Style(nvtx="ops"))
    truth = generate(plan, tmp_path / "x.sqlite", nvtx_text=nvtx_text)
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection:
        rows = connection.execute(
            "SELECT n.start, n.end, coalesce(n.text, s.value) FROM NVTX_EVENTS n"
            " LEFT JOIN StringIds s ON s.id = n.textId ORDER BY n.start, n.end DESC"
        ).fetchall()
        launches = connection.execute(
            "SELECT r.start, r.end FROM CUPTI_ACTIVITY_KIND_RUNTIME r"
            " JOIN CUPTI_ACTIVITY_KIND_KERNEL k USING (correlationId)"
        ).fetchall()
    stack: list[Interval] = []
    for start, end, _ in rows:
        while stack and stack[-1][1] <= start:
            stack.pop()
        assert not stack or end <= stack[-1][1]
        stack.append((start, end))
    steps = [row for row in rows if row[2] == "step"]
    assert len(steps) == 3
    inside = sum(any(s <= a and b <= e for s, e, _ in steps) for a, b in launches)
    assert inside == sum(truth.lanes[0].iterations.kernels)


def test_graph_nodes_share_their_launch(tmp_path: Path) -> None:
    truth = generate(SCENARIOS["graph_nodes"](2), tmp_path / "x.sqlite")
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection:
        launches = connection.execute(
            "SELECT count(*), count(DISTINCT k.graphNodeId), min(k.start) - max(r.start)"
            " FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r"
            " USING (correlationId) JOIN StringIds s ON s.id = r.nameId"
            " WHERE s.value = 'cudaGraphLaunch_v10000' GROUP BY k.correlationId"
        ).fetchall()
    nodes = truth.lanes[0].iterations.kernels[0]
    assert [row[:2] for row in launches] == [(nodes, nodes)] * 50
    assert all(delay > 0 for *_, delay in launches)


def test_large_trace_has_its_proportions(tmp_path: Path) -> None:
    generate(big(kernels=20_000), tmp_path / "x.sqlite")
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection:

        def count(table: str) -> int:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

        kernels = count("CUPTI_ACTIVITY_KIND_KERNEL")
        assert kernels == pytest.approx(20_000, rel=0.05)
        assert count("CUPTI_ACTIVITY_KIND_RUNTIME") == pytest.approx(1.9 * kernels, rel=0.03)
        assert count("NVTX_EVENTS") == pytest.approx(4.8 * kernels, rel=0.03)
        assert count("CUPTI_ACTIVITY_KIND_MEMCPY") == pytest.approx(0.25 * kernels, rel=0.03)
        pids = "SELECT count(DISTINCT globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL"
        assert connection.execute(pids).fetchone() == (2,)


# ---- gaps, states and stalls


@pytest.mark.parametrize(
    "name", [*sorted(STALLS), "slow", "serving", "demo", "graph_nodes", "graph_replay"]
)
def test_gaps_match_the_definition(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    truth = generate(SCENARIOS[name](1), path)
    gaps = oracle_gaps(Trace(path))
    totals = {part: sum(gap[2][part] for gap in gaps) for part in PARTS}
    assert truth.gap_parts_ns == [totals]
    assert truth.states_ns[0]["idle_ns"] == sum(totals.values())
    by_place = {(start, end): parts for start, end, parts in gaps}
    for stall in truth.stalls:
        parts = [by_place[tuple(gap)] for gap in stall.gaps]
        assert stall.idle_ns == sum(end - start for start, end in stall.gaps)
        assert stall.parts == {part: sum(p[part] for p in parts) for part in PARTS}


def test_states_match_a_nanosecond_count(tmp_path: Path) -> None:
    """A short run: mark every 10 ns in an array, lowest state first."""
    plan = stalled(seed=3, kinds=("nccl", "pinned", "sync_memset"), iterations=8)
    truth = generate(plan, tmp_path / "x.sqlite")
    trace = Trace(tmp_path / "x.sqlite")
    first = min(k[0] for k in trace.kernels)
    last = max(k[1] for k in trace.kernels)
    state = np.zeros(last - first, np.int8)
    nccl = [k for k in trace.kernels if k[5].startswith("nccl")]
    compute = [k for k in trace.kernels if not k[5].startswith("nccl")]
    for number, rows in enumerate((trace.memsets, trace.copies, nccl, compute), 1):
        for start, end, *_ in rows:
            state[start - first : end - first] = number
    counts = np.bincount(state, minlength=5).tolist()
    names = ("idle_ns", "memset_ns", "copy_ns", "comm_ns", "compute_ns")
    expected = dict(zip(names, counts, strict=True)) | {"window_ns": last - first}
    assert truth.states_ns == [expected]
    assert expected["comm_ns"] > 0
    exposed = {kind: sum(s.exposed_ns for s in truth.stalls if s.kind == kind) for kind in KINDS}
    assert exposed["nccl"] == expected["comm_ns"]
    assert 0 < exposed["pinned"] <= expected["copy_ns"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_stall_costs_what_it_should(kind: str) -> None:
    truth = generate(stalled(seed=7, kinds=(kind,)))
    assert len(truth.stalls) == 28
    for stall in truth.stalls:
        assert stall.kind == kind
        if kind in GAP_CAUSES:
            assert stall.cause == GAP_CAUSES[kind]
            assert stall.idle_ns > 1_000_000
            share = stall.parts[GAP_CAUSES[kind]] / stall.idle_ns
            assert share > 0.95
        elif kind != "sync_memset":
            assert stall.exposed_ns > 1_000_000
    lost = sum(s.idle_ns + s.exposed_ns for s in truth.stalls)
    if kind == "sync_memset":
        lost += truth.states_ns[0]["memset_ns"]
    # What the GPU lost is what the run is longer by, but for the planted kernels' own time.
    assert truth.wall_cost_ns[kind] == pytest.approx(lost, rel=0.02)


def test_blocking_stalls_block_the_host() -> None:
    blocking = {"sync", "free", "item", "pageable", "sync_api", "sync_memset"}
    for kind in KINDS:
        stalls = generate(stalled(seed=1, kinds=(kind,), iterations=6)).stalls
        assert all((s.host_blocked_ns > 0) == (kind in blocking) for s in stalls), kind


def test_stalls_and_outliers_do_not_mix() -> None:
    with pytest.raises(ValueError, match="outliers"):
        planted(ACCURACY["slow"](0), [])


def test_healthy_run_is_busy() -> None:
    truth = generate(STALLS["healthy"](0))
    (state,) = truth.states_ns
    assert state["compute_ns"] > 0.95 * state["window_ns"]
    assert truth.stalls == []


def test_launch_bound_run_waits_for_launches() -> None:
    truth = generate(STALLS["launch_bound"](0))
    parts = truth.gap_parts_ns[0]
    assert parts["launch"] > 0.9 * sum(parts.values())
    assert truth.states_ns[0]["idle_ns"] > 0.5 * truth.states_ns[0]["window_ns"]


# ---- slow iterations and pairs


def test_outliers_stand_out_and_no_other_does() -> None:
    for seed in range(4):
        truth = generate(ACCURACY["slow"](seed))
        level = truth.lanes[0].iterations
        times = np.diff([*level.starts_ns, level.end_ns])
        median = np.median(times)
        limit = median + 3 * 1.4826 * np.median(np.abs(times - median))
        slow = set(np.flatnonzero((times > limit) & (times > 1.05 * median)).tolist())
        assert slow == {o.iteration for o in truth.outliers}
        assert {o.kind for o in truth.outliers} == {"kernel", "gap", "work"}
        for outlier in truth.outliers:
            excess = times[outlier.iteration] - median
            assert outlier.cost_ns == pytest.approx(excess, rel=0.1)


@pytest.mark.parametrize("kind", ["kernel", "gap"])
def test_pair_differs_at_one_place(kind: str, tmp_path: Path) -> None:
    before, after = pair(seed=3, kind=kind, share=0.08)
    truths = [generate(p, tmp_path / f"{i}.sqlite") for i, p in enumerate((before, after))]
    lanes = [Trace(tmp_path / f"{i}.sqlite").lane(t.lanes[0].pid) for i, t in enumerate(truths)]
    assert [row[5] for row in lanes[0]] == [row[5] for row in lanes[1]]
    regression = truths[1].regression
    assert regression is not None
    assert regression.kind == kind
    medians = [float(np.median(np.diff(t.lanes[0].iterations.starts_ns))) for t in truths]
    assert medians[1] - medians[0] == pytest.approx(regression.cost_ns, rel=0.1)

    def at_place(truth: Truth, lane: list[Any]) -> tuple[float, float]:
        rows = [lane[i + regression.position] for i in truth.lanes[0].iterations.first_events]
        gaps = [
            row[0] - lane[i + regression.position - 1][1]
            for i, row in zip(truth.lanes[0].iterations.first_events, rows, strict=True)
        ]
        return float(np.median([r[1] - r[0] for r in rows])), float(np.median(gaps))

    (run_a, gap_a), (run_b, gap_b) = (at_place(t, x) for t, x in zip(truths, lanes, strict=True))
    longer = run_b - run_a if kind == "kernel" else gap_b - gap_a
    assert longer == pytest.approx(regression.cost_ns, rel=0.1)


def test_equal_pair_is_equal() -> None:
    before, after = pair(seed=3, share=0.0)
    truths = [generate(plan) for plan in (before, after)]
    assert truths[1].regression is None
    medians = [float(np.median(np.diff(t.lanes[0].iterations.starts_ns))) for t in truths]
    assert medians[0] != medians[1]
    assert medians[1] == pytest.approx(medians[0], rel=0.005)


# ---- several ranks


def test_job_writes_a_file_a_rank_with_its_own_clock(tmp_path: Path) -> None:
    plan = job(seed=1, ranks=3, iterations=6)
    offsets = [0, 5_000_000, -2_000_000]
    truth = generate_job(plan, tmp_path, clock_offsets_ns=offsets, clock_errors_ns=[0, 300, -700])
    traces = [Trace(tmp_path / f"rank{i}.sqlite") for i in range(3)]
    for lane, trace, offset in zip(truth.lanes, traces, offsets, strict=True):
        starts = [row[0] for row in trace.lane(lane.pid)]
        assert [starts[i] + offset for i in lane.iterations.first_events] == (
            lane.iterations.starts_ns
        )
    ends = [
        [k[1] + offset for k in sorted(trace.kernels) if k[5].startswith("nccl")]
        for trace, offset in zip(traces, offsets, strict=True)
    ]
    # Ranks leave a collective together, each after its own duration from when the last came.
    spread = np.ptp(np.array(ends), axis=0)
    assert len(ends[0]) == 6 * 6
    durations = [
        [k[1] - k[0] for k in sorted(t.kernels) if k[5].startswith("nccl")] for t in traces
    ]
    assert (spread < 0.2 * np.max(durations, axis=0)).all()
    with closing(sqlite3.connect(tmp_path / "rank1.sqlite")) as connection:
        (utc,) = connection.execute(
            "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"
        ).fetchone()
    assert utc % 1_000_000_000 == 5_000_300


def test_straggler_makes_the_others_wait() -> None:
    truth = generate(job(seed=2, ranks=4, iterations=8))
    comm = [state["comm_ns"] for state in truth.states_ns]
    compute = [state["compute_ns"] for state in truth.states_ns]
    assert int(np.argmax(compute)) == int(np.argmin(comm))


def test_device_numbers(tmp_path: Path) -> None:
    plan = training(seed=0, iterations=2, layers=2, ranks=2)

    def devices(path: Path) -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            kernels = set(
                connection.execute("SELECT globalPid, deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL")
            )
            gpus = dict(
                connection.execute(
                    "SELECT pid << 8 | cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE"
                ).fetchall()
            )
        return [gpus[(pid >> 24 & 0xFFFFFF) << 8 | device] for pid, device in sorted(kernels)]

    generate(plan, tmp_path / "a.sqlite")
    assert devices(tmp_path / "a.sqlite") == [0, 1]
    generate(plan, tmp_path / "b.sqlite", masked=True)
    assert devices(tmp_path / "b.sqlite") == [0, 1]
    generate(plan, tmp_path / "c.sqlite", reversed_ids=True)
    assert devices(tmp_path / "c.sqlite") == [1, 0]


# ---- the same again


@pytest.mark.parametrize("name", ["clean", "noise3", "mixed", "serving"])
def test_same_seed_same_bytes(name: str, tmp_path: Path) -> None:
    first = generate(SCENARIOS[name](4), tmp_path / "a.sqlite")
    again = generate(SCENARIOS[name](4), tmp_path / "b.sqlite")
    other = generate(SCENARIOS[name](5), tmp_path / "c.sqlite")
    assert first == again
    assert digest(tmp_path / "a.sqlite") == digest(tmp_path / "b.sqlite")
    assert digest(tmp_path / "a.sqlite") != digest(tmp_path / "c.sqlite")
    assert first != other


def test_pieces_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executing in many pieces gives the same timeline as in one."""
    plan = training(seed=1, iterations=12, layers=4, style=Style(comm=True), ranks=2)
    (program,) = plan.pieces()
    split = [program[:, :777], program[:, 777:3_000], program[:, 3_000:]]
    whole = joined(list(execute(plan)))
    cut = type(plan)(**{**plan.__dict__, "pieces": lambda: iter(split)})
    assert (joined(list(execute(cut))).device_end == whole.device_end).all()
    monkeypatch.setattr("fixtures.plan.PIECE_INSTRUCTIONS", 300)
    many = generate(plan)
    assert len(list(plan.pieces())) > 3
    assert len(many.lanes[0].iterations.starts_ns) == 12
    assert sum(many.lanes[0].iterations.kernels) == 12 * (plan.period or (0, 0))[0]


def test_queue_depth_blocks_the_host() -> None:
    plan = training(seed=0, iterations=10, layers=12, style=Style("none"))
    (run,) = execute(plan)
    code = run.code[0]
    at = np.flatnonzero((code["op"] <= isa.LAST_DEVICE_OP) & (code["stream"] == 0))
    returned, began = run.host_end[0][at], run.device_start[0][at]
    assert len(at) > 3_000
    depth = np.arange(1, len(at) + 1) - np.searchsorted(began, returned, side="right")
    assert depth.max() <= 1_024
    assert depth.max() > 1_000


def test_demonstration_trace_is_what_its_code_makes(tmp_path: Path) -> None:
    main(tmp_path)
    made = tmp_path / TRAIN.name
    assert made.stat().st_size < 1_000_000
    assert digest(made) == digest(TRAIN)
    truth = (tmp_path / "train.truth.json").read_text()
    assert truth == TRAIN.with_name("train.truth.json").read_text()
    (state,) = json.loads(truth)["states_ns"]
    assert 0.6 < state["compute_ns"] / state["window_ns"] < 0.75


def test_truth_can_be_read_back(tmp_path: Path) -> None:
    truth = generate(ACCURACY["clean"](0))
    truth.write(tmp_path / "t.json")
    read = json.loads((tmp_path / "t.json").read_text())
    assert read["nest_text"] == truth.nest_text
    assert read["lanes"][0]["levels"][0]["starts_ns"] == truth.lanes[0].iterations.starts_ns


def test_command_writes_trace_and_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth_path = tmp_path / "t.json"
    write_scenario(["few", str(tmp_path / "x.sqlite"), "--seed", "3", "--generation", "3.4",
                    "--truth", str(truth_path)])  # fmt: skip
    assert json.loads(truth_path.read_text())["kind"] == "few"
    kernels = Trace(tmp_path / "x.sqlite").kernels
    assert len(kernels) == generate(SCENARIOS["few"](3)).lanes[0].kernels
    write_scenario(["long", str(tmp_path / "y.sqlite"), "--kernels", "5000"])
    assert len(Trace(tmp_path / "y.sqlite").kernels) == pytest.approx(5_000, rel=0.1)
    write_scenario(["job", str(tmp_path / "ranks")])
    assert len(list((tmp_path / "ranks").glob("rank*.sqlite"))) == 8
    with pytest.raises(SystemExit):
        write_scenario(["few", str(tmp_path / "z.sqlite"), "--kernels", "5"])
    assert "big and long" in capsys.readouterr().err


def test_empty_export_is_no_trace(tmp_path: Path) -> None:
    assert Trace(Export().write(tmp_path / "x.sqlite")).kernels == []
