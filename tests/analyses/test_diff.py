"""Comparing runs: nothing planted, nothing found; what is planted is found where it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fixtures.builder import Export
from fixtures.generator import generate
from fixtures.scenarios import pair
from fixtures.training import training
from nsys_deepprof import diff, narrow, open_trace
from nsys_deepprof.analyses.diff import exceeds
from nsys_deepprof.analyses.mined import main_lanes, mined
from nsys_deepprof.analyses.occurrences import occurrences, periods_ns
from tests.cli.running import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nsys_deepprof.result import Result


@dataclass(frozen=True)
class Op:
    """One kernel of a body: what it is called, how long it runs, how long nothing runs after."""

    name: str
    run_ns: int = 1_000
    gap_ns: int = 100
    copy_ns: int = 0


def write(
    path: Path, body: list[Op], turns: int, *, begin: int = 0, device: int = 0, pid: int = 1000
) -> Path:
    """A run of so many turns and the start of another; the first `begin` operations are cut off."""
    export = Export()
    add(export, body, turns, begin=begin, device=device, pid=pid)
    return export.write(path)


def add(
    export: Export, body: list[Op], turns: int, *, begin: int = 0, device: int = 0, pid: int = 1000
) -> None:
    ops = (body * (turns + 1))[begin : turns * len(body) + 1]
    starts = accumulate((op.run_ns + op.gap_ns for op in ops), initial=5_000 + 700 * pid)
    for op, start in zip(ops, starts, strict=False):
        export.kernel(start, start + op.run_ns, device, pid=pid, name=op.name)
        if op.copy_ns:
            end = start + op.run_ns
            export.copy(end, end + op.copy_ns, device, pid=pid)


BODY = [Op(name, 1_000 + 100 * i) for i, name in enumerate("abcdefgh")]


def compare(a: Path, b: Path) -> Result:
    return diff(open_trace(a), open_trace(b))


def changed(result: Result) -> list[dict[str, object]]:
    return result.frame.filter(pl.col("change").cast(pl.String) != "same").to_dicts()


def test_a_run_against_itself_is_the_same_and_all_deltas_are_zero(tmp_path: Path) -> None:
    a = write(tmp_path / "a.sqlite", BODY, 12)
    result = compare(a, a)
    iteration = result.extra["iteration"]
    assert result.extra["identical"]
    assert iteration["verdict"] == "same"
    assert (iteration["delta_share"], iteration["ci_low"], iteration["ci_high"]) == (0, 0, 0)
    assert set(result.frame["delta_ns"]) == {0}
    assert set(result.extra["parts"]["delta_ns"]) == {0}
    assert exceeds(result, 0.0) is None


def test_the_same_work_captured_for_longer_is_the_same(tmp_path: Path) -> None:
    a = write(tmp_path / "a.sqlite", BODY, 10)
    b = write(tmp_path / "b.sqlite", BODY, 20, pid=77)
    result = compare(a, b)
    assert not result.extra["identical"]
    assert result.extra["iteration"]["verdict"] == "same"
    assert set(result.frame["delta_ns"]) == {0}
    assert all(row["call_delta_share"] == 0 for row in result.extra["kernels"].to_dicts())


CHANGE = st.sampled_from(["kernel", "gap", "added", "gone", "replaced", "copy"])


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(CHANGE, st.integers(1, 6), st.integers(0, 7), st.integers(0, 7), st.data())
# The operation that is replaced is the first of one run's iterations and the last of the other's.
@example("replaced", 6, 6, 7, None)
def test_what_is_planted_is_found_where_it_is(
    tmp_path: Path, kind: str, place: int, begin_a: int, begin_b: int, data: st.DataObject | None
) -> None:
    extra_ns = data.draw(st.integers(1_000, 5_000)) if data else 1_000
    other = list(BODY)
    old = BODY[place]
    match kind:
        case "kernel":
            other[place] = replace(old, run_ns=old.run_ns + extra_ns)
        case "gap":
            other[place] = replace(old, gap_ns=old.gap_ns + extra_ns)
        case "added":
            other.insert(place, Op("new", extra_ns, 0))
        case "gone":
            extra_ns = -old.run_ns
            del other[place]
        case "replaced":
            other[place] = replace(old, name="new", run_ns=old.run_ns + extra_ns)
        case "copy":
            other[place] = replace(old, gap_ns=old.gap_ns + extra_ns, copy_ns=extra_ns)
    # Wherever a capture begins, the same work is at the same place.
    a = write(tmp_path / "a.sqlite", BODY, 12, begin=begin_a)
    b = write(tmp_path / "b.sqlite", other, 14, begin=begin_b % len(other))
    result = compare(a, b)
    found = changed(result)
    part, change, what = {
        "kernel": ("kernel", "slower", old.name),
        "gap": ("idle", "slower", f"idle after {old.name}, before {BODY[(place + 1) % 8].name}"),
        "added": ("kernel", "added", "new"),
        "gone": ("kernel", "gone", old.name),
        "replaced": ("kernel", "replaced", f"{old.name} -> new"),
        "copy": ("copy", "added", "Memcpy HtoD"),
    }[kind]
    row = next(r for r in found if r["part"] == part)
    assert (row["change"], row["what"], row["delta_ns"]) == (change, what, extra_ns)
    if kind == "copy":
        assert any(r["part"] == "exposed copy" and r["delta_ns"] == extra_ns for r in found)
    assert all(abs(r["delta_ns"]) <= abs(extra_ns) + old.gap_ns for r in found)
    wall = {r["part"]: r for r in result.extra["parts"].iter_rows(named=True)}["wall"]
    expected = sum(op.run_ns + op.gap_ns for op in other) - sum(
        op.run_ns + op.gap_ns for op in BODY
    )
    assert wall["delta_ns"] == expected
    # Wherever the two captures begin, an iteration is as long from any place of it.
    a_ns, b_ns = (sum(op.run_ns + op.gap_ns for op in body) for body in (BODY, other))
    iteration = result.extra["iteration"]
    assert (iteration["a_median_ns"], iteration["b_median_ns"]) == (a_ns, b_ns)
    assert iteration["cut_low"] == iteration["cut_high"] == iteration["delta_share"]
    assert result.extra["iteration"]["verdict"] == ("faster" if expected < 0 else "slower")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["none", "kernel", "gap"])
def test_generated_runs_with_their_own_noise(tmp_path: Path, kind: str, seed: int) -> None:
    """A few of the pairs of the benchmark `diff_power`, 3 % slower or not at all."""
    plans = pair(seed=seed, kind="gap" if kind == "none" else kind, share=0.03 * (kind != "none"))
    paths = [tmp_path / "before.sqlite", tmp_path / "after.sqlite"]
    planted = [generate(plan, path) for plan, path in zip(plans, paths, strict=True)][1].regression
    result = compare(*paths)
    if planted is None:
        assert result.extra["iteration"]["verdict"] == "same"
        assert exceeds(result, 0.03) is None
        return
    assert result.extra["iteration"]["verdict"] == "slower"
    largest = result.frame.row(0, named=True)
    assert largest["position"] == planted.position - (kind == "gap")
    assert largest["part"] == ("idle" if kind == "gap" else "kernel")
    assert largest["delta_ns"] == pytest.approx(planted.cost_ns, rel=0.1)


def test_new_and_vanished_kernels_are_listed_apart(tmp_path: Path) -> None:
    other = [op for op in BODY if op.name != "c"] + [Op("new")]
    result = compare(
        write(tmp_path / "a.sqlite", BODY, 12), write(tmp_path / "b.sqlite", other, 12)
    )
    assert result.extra["new"]["what"].to_list() == ["new"]
    assert result.extra["vanished"]["what"].to_list() == ["c"]
    assert result.extra["new"]["a_ns"].to_list() == [None]


def test_names_that_differ_by_a_generated_hash_are_one_kernel(tmp_path: Path) -> None:
    names = ("triton_poi_fused_add_1_cemi5yor3uh3", "triton_poi_fused_add_1_qwdf83hsk2la")
    once = [write(tmp_path / f"{i}.sqlite", [Op(n)], 1) for i, n in enumerate(names)]
    (row,) = compare(*once).extra["kernels"].to_dicts()
    assert (row["match"], row["delta_ns"]) == ("normalised", 0)
    loops = [write(tmp_path / f"loop{i}.sqlite", [*BODY, Op(n)], 12) for i, n in enumerate(names)]
    result = compare(*loops)
    assert result.extra["iteration"]["verdict"] == "same"
    assert set(result.frame["delta_ns"]) == {0}
    kernels = result.frame.filter(pl.col("part").cast(pl.String) == "kernel")
    assert sorted(kernels["match"]) == ["full"] * 8 + ["normalised"]


def test_different_devices_are_said_first_and_only_common_ones_compared(tmp_path: Path) -> None:
    both = Export()
    add(both, BODY, 12, device=0)
    add(both, [replace(op, run_ns=9_000) for op in BODY], 12, device=1)
    a = both.write(tmp_path / "a.sqlite")
    b = write(tmp_path / "b.sqlite", BODY, 12)
    result = compare(a, b)
    assert "different GPUs" in result.notes[0]
    assert "A has 0, 1, B has 0" in result.notes[0]
    assert result.extra["devices"] == {"a": [0, 1], "b": [0], "same": False}
    assert result.extra["iteration"]["verdict"] == "same"
    assert set(result.frame["delta_ns"]) == {0}
    assert set(result.extra["kernels"]["delta_ns"]) == {0}


def test_a_gpu_that_got_slower_fails_the_gate_whichever_it_is(tmp_path: Path) -> None:
    paths = []
    for name, slow in (("a", 0), ("b", 2_000)):
        export = Export()
        add(export, BODY, 12, device=0)
        add(export, [*BODY[:-1], replace(BODY[-1], gap_ns=100 + slow)], 12, device=1)
        paths.append(export.write(tmp_path / f"{name}.sqlite"))
    result = compare(*paths)
    assert result.extra["iteration"]["gpu"] == 0
    assert result.extra["iteration"]["verdict"] == "same"
    assert "GPU 1" in str(exceeds(result, 0.03))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_run_without_kernels_is_inconclusive(tmp_path: Path, swapped: bool) -> None:
    a = write(tmp_path / "a.sqlite", BODY, 12)
    b = Export().api(1, 2, name="cudaLaunchKernel").write(tmp_path / "b.sqlite")
    paths = (b, a) if swapped else (a, b)
    result = compare(*paths)
    iteration = result.extra["iteration"]
    assert iteration["verdict"] == "inconclusive"
    assert iteration["delta_share"] is None
    assert "no kernels" in result.notes[0]
    assert exceeds(result, 0.03)
    assert run("diff", *paths, "--fail-on", "3%").code == 1
    assert run("diff", *paths).code == 0
    assert run("diff", b, b, "--fail-on", "3%").code == 1


def test_work_that_has_nothing_in_common_is_inconclusive(tmp_path: Path) -> None:
    a = write(tmp_path / "a.sqlite", BODY, 12)
    b = write(tmp_path / "b.sqlite", [Op(f"other{i}") for i in range(5)], 12)
    result = compare(a, b)
    assert result.extra["iteration"]["verdict"] == "inconclusive"
    assert result.extra["iteration"]["basis"] == "kernels"
    assert set(result.frame["change"]) == {"new", "vanished"}


def test_gates_end_with_their_status_and_write_their_files(tmp_path: Path) -> None:
    a = write(tmp_path / "a.sqlite", BODY, 12)
    slow = [*BODY[:3], replace(BODY[3], gap_ns=1_500), *BODY[4:]]
    b = write(tmp_path / "b.sqlite", slow, 12)
    page = tmp_path / "page.html"
    ran = run("diff", a, b, "--fail-on", "3%", "--html", page, "--format", "json")
    assert ran.code == 1
    assert ran.err == ""
    document = ran.json()
    assert document["passed"] is False
    assert "slower by" in document["failure"]
    assert {"what", "a_ns", "b_ns", "delta_ns", "delta_share", "a_calls", "b_calls"} <= set(
        document["rows"][0]
    )
    text = page.read_text(encoding="utf-8")
    assert 'data-verdict="slower"' in text
    assert "idle after d, before e" in text
    assert run("diff", a, b, "--fail-on", "50%").code == 0
    assert run("diff", b, a, "--fail-on", "0.03").code == 0
    assert run("diff", a, b, "--fail-on", "fast").code == 2
    assert run("diff", a, b, "-o", a).code == 3


def test_names_of_strangers_do_not_reach_the_page_as_markup(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    a = write(tmp_path / "a.sqlite", [*BODY, Op(evil)], 12)
    b = write(tmp_path / "b.sqlite", [*BODY, Op(evil, 3_000)], 12)
    page = tmp_path / "page.html"
    assert run("diff", a, b, "--html", page, "-o", tmp_path / "rows.txt").code == 0
    text = page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_the_real_regression_is_found_per_block(real_trace: Callable[[str], Path]) -> None:
    before = open_trace(real_trace("h100_diffusion_2gpu_before"))
    after = open_trace(real_trace("h100_diffusion_2gpu_after"))
    result = diff(before, after)
    iteration = result.extra["iteration"]
    assert (iteration["gpu"], iteration["verdict"], iteration["basis"]) == (
        0,
        "slower",
        "iteration",
    )
    assert 0.12 <= iteration["delta_share"] <= 0.15
    assert 0.09 <= iteration["cut_low"] <= iteration["cut_high"] <= 0.19
    assert iteration["a_median_ns"] == pytest.approx(16.7e6, rel=0.01)
    assert iteration["b_median_ns"] == pytest.approx(19e6, rel=0.02)
    parts = {(row["gpu"], row["part"]): row for row in result.extra["parts"].iter_rows(named=True)}
    assert parts[0, "GPU work"]["delta_share"] == pytest.approx(-0.018, abs=0.002)
    # What was added is waiting: more than the wall time gained, compute stays.
    assert parts[0, "idle"]["delta_ns"] > 0.9 * parts[0, "wall"]["delta_ns"]
    assert abs(parts[0, "compute"]["delta_share"]) < 0.01
    slower = result.frame.filter(pl.col("change").cast(pl.String) == "slower")
    assert slower.filter(pl.col("part").cast(pl.String) == "idle").height > 30
    assert all(lane["verdict"] == "slower" for lane in result.extra["lanes"])
    back = diff(after, before).extra["iteration"]
    assert back["verdict"] == "faster"


def test_runs_are_compared_at_one_level_of_their_nests(real_trace: Callable[[str], Path]) -> None:
    """In this part of the second run half a block explains more than the block does."""
    before, after = (
        narrow(open_trace(real_trace(f"h100_diffusion_2gpu_{name}")), to_ms=150)
        for name in ("before", "after")
    )
    iteration = diff(before, after).extra["iteration"]
    assert iteration["similarity"] == 1
    assert 0.05 < iteration["delta_share"] < 0.15


def test_every_real_trace_is_the_same_as_itself(each_real_trace: Path) -> None:
    trace = open_trace(each_real_trace)
    result = diff(trace, trace)
    kernels = result.extra["kernels"]
    expected = "same" if kernels.height else "inconclusive"
    assert result.extra["iteration"]["verdict"] == expected
    assert set(result.frame["delta_ns"]) <= {0}
    assert set(kernels["delta_ns"]) <= {0}


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_periods_are_times_to_the_same_place_of_the_next_iteration(
    tmp_path: Path, noise: float
) -> None:
    path = tmp_path / "run.sqlite"
    generate(training(seed=3, iterations=8, layers=2, noise=noise), path)
    (one,) = main_lanes(mined(open_trace(path)))
    assert one.found is not None
    found, starts = one.found, one.lane.sequence.start_ns
    positions = np.arange(0, len(found.body), 7)
    got = periods_ns(one.lane, found, positions)
    assert got.shape == (len(found) - 1, len(positions))
    at = [
        {found.position[i]: int(starts[i]) for i in range(first, stop) if found.position[i] >= 0}
        for first, stop in zip(found.first, found.stop, strict=True)
    ]
    for turn, row in enumerate(got):
        known = {
            p: at[turn + 1][p] - at[turn][p]
            for p in positions.tolist()
            if p in at[turn] and p in at[turn + 1]
        }
        usual = float(np.median(list(known.values())))
        assert row.tolist() == [known.get(p, usual) for p in positions.tolist()]


@pytest.mark.parametrize("name", ["train_a100_6steps", "h100_diffusion_offload_2gpu"])
def test_the_places_of_an_iteration_add_up_to_it(
    real_trace: Callable[[str], Path], name: str
) -> None:
    trace = open_trace(real_trace(name))
    for one in main_lanes(mined(trace)):
        assert one.found is not None
        parts = occurrences(trace, one.lane, one.found)
        summed = parts.places.group_by("turn").agg(pl.exclude("position", "start_ns").sum())
        joined = parts.turns.with_row_index("turn").join(
            summed.with_columns(pl.col("turn").cast(pl.UInt32)), on="turn", suffix="_places"
        )
        assert joined.height == len(one.found) - 1
        assert (joined["wall_ns"] == joined["slot_ns"]).all()
        for state in ("compute_ns", "comm_ns", "copy_ns", "memset_ns", "idle_ns"):
            assert (joined[state] == joined[f"{state}_places"]).all()
        # Every operation of the GPU and process in these iterations is a place or beside it.
        inside = parts.places.height + parts.side.height
        first, last = one.found.start_ns[0], one.found.end_ns[-2]
        expected = sum(
            trace.table(table)
            .filter(
                (pl.col("global_pid") == one.lane.global_pid)
                & pl.col("start_ns").is_between(int(first), int(last), closed="left")
            )
            .height
            for table in ("kernels", "memcpys", "memsets", "graph_launches")
        )
        assert inside == expected
