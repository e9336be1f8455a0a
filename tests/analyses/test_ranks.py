"""Ranks side by side: planted stragglers, exact splits, nothing joined that should not be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.builder import Export
from fixtures.generator import generate, generate_job
from fixtures.scenarios import job
from nsys_deepprof import open_trace, ranks
from nsys_deepprof.analyses.ranks import _chance
from tests.cli.running import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EPOCH_NS = 1_700_000_000_000_000_000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"


def straggler_of(seed: int, count: int) -> int:
    """The slow rank of `job(seed)`: drawn after the other ranks' speeds."""
    rng = np.random.default_rng([seed, 3])
    rng.random(count)
    return int(rng.integers(count))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_planted_straggler_is_found_in_eight_files(tmp_path: Path, seed: int) -> None:
    offsets = [1_700_000 * rank for rank in range(8)]
    errors = [(-1) ** rank * 900_000 for rank in range(8)]
    plan = job(seed=seed, iterations=10)
    generate_job(plan, tmp_path, clock_offsets_ns=offsets, clock_errors_ns=errors)
    paths = [tmp_path / f"rank{rank}.sqlite" for rank in range(8)]
    result = ranks([open_trace(path) for path in paths])
    slow = straggler_of(seed, 8)
    assert result.extra["straggler"] == slow
    assert set(result.frame["slowest"]) == {slow}
    # 12 % slower device work, of an iteration that is partly communication.
    assert 0.03 < result.frame["lag_share"].mean() < 0.13
    told = result.extra["ranks"]
    assert told["source"].to_list() == [str(path) for path in paths]
    measured = np.array(offsets) + np.array(errors)
    assert told["offset_ns"].to_list() == (measured - measured.min()).tolist()
    assert told["skipped"].to_list() == [0] * 8
    # Who is waited for waits least.
    assert told.sort("collective_wait_ns")["rank"][0] == slow
    assert any("millisecond" in note for note in result.notes)
    assert str(slow) in result.extra["summary"][1]


def test_the_same_job_in_one_file(tmp_path: Path) -> None:
    generate(job(seed=4, ranks=4, iterations=10), tmp_path / "job.sqlite")
    result = ranks([open_trace(tmp_path / "job.sqlite")])
    assert result.extra["ranks"].height == 4
    assert result.extra["straggler"] == straggler_of(4, 4)
    assert not any("millisecond" in note for note in result.notes)


def rank_file(
    path: Path,
    work: list[list[int]],
    arrivals: list[int],
    *,
    start_ns: int,
    utc_ns: int | None,
    reduce_ns: int = 500,
) -> Path:
    """A rank that runs kernels a, b, c for these times each turn, then an all-reduce that ends
    when the last rank has arrived and the transfer is over, on a clock that is `start_ns` late."""
    export = Export()
    if utc_ns is not None:
        export.session(utc_ns + start_ns)
    begin = 0
    for turn, arrival in zip(work, arrivals, strict=True):
        at = begin
        for name, length in zip("abc", turn, strict=True):
            export.kernel(at - start_ns, at + length - start_ns, name=name)
            at += length
        end = arrival + reduce_ns
        export.kernel(at - start_ns, end - start_ns, name=REDUCE)
        begin = end + 10
    return export.write(path)


TIMES = st.lists(st.integers(1_000, 9_000), min_size=3, max_size=3)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(2, 4).flatmap(lambda n: st.lists(
    st.lists(TIMES, min_size=6, max_size=6), min_size=n, max_size=n)))  # fmt: skip
def test_own_time_and_waiting_are_exact(tmp_path: Path, work: list[list[list[int]]]) -> None:
    size, turns = len(work), len(work[0])
    arrivals, begin = [], 0
    for k in range(turns):
        arrivals.append(begin + max(sum(work[r][k]) for r in range(size)))
        begin = arrivals[-1] + 500 + 10
    paths = [
        rank_file(tmp_path / f"r{r}.sqlite", work[r], arrivals, start_ns=77 * r, utc_ns=None)
        for r in range(size)
    ]
    result = ranks([open_trace(path) for path in paths])
    assert result.frame.height == turns - 1
    for k, row in enumerate(result.frame.iter_rows(named=True)):
        own = [sum(work[r][k]) for r in range(size)]
        # Whatever a rank does itself, and the transfer and the pause that all have.
        assert row["own_ns"] == max(own) + 510
        assert own[row["slowest"]] == max(own)
        others = own[: row["slowest"]] + own[row["slowest"] + 1 :]
        assert row["lag_ns"] == max(own) - float(np.median(others))
        assert row["transfer_ns"] == 500
        assert row["wait_ns"] == sum(max(own) - o for o in own)
        assert row["imbalance"] == pytest.approx((max(own) + 510) / (np.mean(own) + 510) - 1)
        lost = [
            work[row["slowest"]][k][p]
            - float(np.median([work[r][k][p] for r in range(size) if r != row["slowest"]]))
            for p in range(3)
        ]
        if math.isclose(row["lag_ns"], 0):
            continue
        assert row["where_ns"] == max(lost)
        assert row["where"] == f"{'abc'[lost.index(max(lost))]} runs longer"
    told = result.extra["rank_iterations"].to_dicts()
    assert [(row["rank"], row["index"]) for row in told] == [
        (r, k) for r in range(size) for k in range(turns - 1)
    ]
    for row in told:
        k, r = row["index"], row["rank"]
        own = [sum(work[o][k]) for o in range(size)]
        assert row["own_ns"] == own[r] + 510
        assert row["wait_ns"] == max(own) - own[r]
        assert row["duration_ns"] == max(own) + 510
        assert row["lag_ns"] == own[r] - float(np.median(own[:r] + own[r + 1 :]))
    for row in result.extra["places"].filter(pl.col("position") < 3).iter_rows(named=True):
        medians = [
            float(np.median([work[r][k][row["position"]] for k in range(turns - 1)]))
            for r in range(size)
        ]
        worst = medians.index(max(medians))
        rest = float(np.median(medians[:worst] + medians[worst + 1 :]))
        assert (row["name"], row["slowest"]) == ("abc"[row["position"]], worst)
        assert row["lag_ns"] == row["run_lag_ns"] == medians[worst] - rest
        assert row["times_worst"] == (result.frame["position"] == row["position"]).sum()
    lags = result.extra["places"]["lag_ns"].to_list()
    assert lags == sorted(lags, reverse=True)
    assert len(lags) == 4
    table = result.extra["ranks"]
    waits = [
        sum(max(sum(work[o][k]) for o in range(size)) - sum(work[r][k]) for k in range(turns - 1))
        for r in range(size)
    ]
    assert table["collective_wait_ns"].to_list() == waits
    assert table["wait_ns"].to_list() == waits
    (collective,) = result.extra["collectives"].to_dicts()
    assert (collective["calls"], collective["transfer_ns"]) == (turns - 1, 500 * (turns - 1))
    assert collective["wait_ns"] == sum(waits)


def late_job(folder: Path, *, utc_ns: int | None) -> list[Path]:
    """Two ranks of ten turns of about 20 ms; the capture of the second lacks the first three."""
    work = [[[5_000_000, 5_000_000, 5_000_000 + (r == 1) * 1_000_000]] * 10 for r in range(2)]
    arrivals, begin = [], 0
    for _ in range(10):
        arrivals.append(begin + 16_000_000)
        begin = arrivals[-1] + 500 + 10
    first = rank_file(folder / "r0.sqlite", work[0], arrivals, start_ns=0, utc_ns=utc_ns)
    step = arrivals[1] - arrivals[0]
    later = [arrival - 3 * step for arrival in arrivals[3:]]
    second = rank_file(folder / "r1.sqlite", work[1][3:], later, start_ns=0, utc_ns=None)
    if utc_ns is not None:
        rebuilt = Export().session(utc_ns + 3 * step + 400_000)
        kernels = open_trace(second).table("kernels")
        for start, end, name in kernels.select(
            "start_ns", "end_ns", pl.col("name").cast(pl.String)
        ).iter_rows():
            rebuilt.kernel(start, end, name=name)
        second = rebuilt.write(folder / "late.sqlite")
    return [first, second]


def test_iterations_are_numbered_alike_where_a_capture_began_later(tmp_path: Path) -> None:
    result = ranks([open_trace(path) for path in late_job(tmp_path, utc_ns=EPOCH_NS)])
    assert result.extra["ranks"]["skipped"].to_list() == [3, 0]
    assert result.frame.height == 6
    assert result.extra["straggler"] == 1


def test_without_session_starts_iterations_are_counted_from_the_first(tmp_path: Path) -> None:
    result = ranks([open_trace(path) for path in late_job(tmp_path, utc_ns=None)])
    assert result.extra["ranks"]["skipped"].to_list() == [0, 0]
    assert result.extra["ranks"]["offset_ns"].to_list() == [None, None]
    assert any("Not every file tells" in note for note in result.notes)


def test_one_rank_and_no_iterations_are_told_apart(tmp_path: Path) -> None:
    alone = Export()
    for i in range(30):
        alone.kernel(100 * i, 100 * i + 50, name="abc"[i % 3])
    path = alone.write(tmp_path / "one.sqlite")
    one = ranks([open_trace(path)])
    assert (one.extra["status"], one.frame.height) == ("one_rank", 0)
    none = ranks([open_trace(Export().kernel(0, 1).write(tmp_path / "none.sqlite"))])
    assert (none.extra["status"], none.extra["straggler"]) == ("no_iterations", None)
    assert none.notes


@pytest.mark.parametrize(
    ("name", "communicates"),
    [("h100_diffusion_2gpu_after", True), ("h100_diffusion_offload_2gpu", False)],
)
def test_the_two_processes_of_a_real_run(
    real_trace: Callable[[str], Path], name: str, communicates: bool
) -> None:
    result = ranks([open_trace(real_trace(name))])
    told = result.extra["ranks"]
    assert told["gpu"].to_list() == [0, 1]
    assert result.frame.height == told["iterations"][0] >= 13
    assert bool(result.extra["collectives"].height) == communicates
    if not communicates:
        # None in common is not the same as none that took time.
        assert result.frame["transfer_ns"].null_count() == result.frame.height
        assert told["collective_ns"].null_count() == told["wait_ns"].null_count() == told.height
        assert any("No communication" in note for note in result.notes)
        return
    split = told.with_columns(
        (pl.col("collective_ns") - pl.col("collective_wait_ns")).alias("transfer_ns")
    )
    # What the collectives cost is the same for both: the rest of each is waiting.
    assert split["transfer_ns"].n_unique() == 1
    assert result.frame["transfer_ns"].sum() == split["transfer_ns"][0]
    assert result.frame["wait_ns"].sum() == told["collective_wait_ns"].sum()
    assert (told["wait_ns"] <= told["collective_wait_ns"]).all()
    assert not any("No communication" in note for note in result.notes)


@pytest.mark.parametrize(
    ("slow", "told"),
    [
        ([(0, 1_000)] * 10, "mostly where a runs longer"),
        ([(k % 3, 1_000 + k % 3) for k in range(10)], "at changing places (most often, 3 times"),
        ([None] * 10, "spread over the iteration (the largest part, 400 ns, where a"),
    ],
)
def test_the_summary_tells_one_place_from_many(
    tmp_path: Path, slow: list[tuple[int, int] | None], told: str
) -> None:
    base = [[5_000, 5_000, 5_000]] * 10
    late = [
        [5_400, 5_399, 5_399] if one is None else [5_000 + one[1] * (p == one[0]) for p in range(3)]
        for one in slow
    ]
    arrivals, begin = [], 0
    for turn in late:
        arrivals.append(begin + sum(turn))
        begin = arrivals[-1] + 510
    paths = [
        rank_file(tmp_path / f"r{r}.sqlite", work, arrivals, start_ns=0, utc_ns=None)
        for r, work in enumerate((base, late))
    ]
    result = ranks([open_trace(path) for path in paths])
    assert result.extra["straggler"] == 1
    assert told in result.extra["summary"][1]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.integers(1, 40), st.data())
def test_the_chance_of_a_straggler_is_never_told_too_small(
    size: int, iterations: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(iterations // size + 1, max(iterations, iterations // size + 1)))
    count = min(count, iterations)
    tail = sum(
        math.comb(iterations, k) * (size - 1) ** (iterations - k)
        for k in range(count, iterations + 1)
    )
    assert _chance(count, iterations, size) >= min(tail / size**iterations, 1) - 1e-12


def test_equal_ranks_have_no_straggler(tmp_path: Path) -> None:
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        work = rng.integers(5_000, 6_000, (2, 14, 3)).tolist()
        arrivals, begin = [], 0
        for k in range(14):
            arrivals.append(begin + max(sum(rank[k]) for rank in work))
            begin = arrivals[-1] + 510
        paths = [
            rank_file(tmp_path / f"{seed}-{r}.sqlite", mine, arrivals, start_ns=0, utc_ns=None)
            for r, mine in enumerate(work)
        ]
        result = ranks([open_trace(path) for path in paths])
        alarms += result.extra["straggler"] is not None
        if result.extra["straggler"] is None:
            assert "No rank is slow again and again" in result.extra["summary"][1]
    assert alarms <= 1


def test_the_command_takes_a_folder(tmp_path: Path) -> None:
    late_job(tmp_path, utc_ns=None)
    ran = run("ranks", tmp_path, "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    document = ran.json()
    assert [row["rank"] for row in document["ranks"]] == [0, 1]
    page = tmp_path / "ranks.html"
    table = run("ranks", tmp_path, "--html", page)
    assert table.code == 0
    # A warning of both files is said once, in the table and on the page.
    assert table.text.count("both runs: No CUDA API calls") == 1
    text = page.read_text(encoding="utf-8")
    assert text.count("both runs: No CUDA API calls") == 1
    assert 'data-straggler="1"' in text
    first = tmp_path / "r0.sqlite"
    assert run("ranks", tmp_path, "--html", first).code != 0
    assert first.read_bytes()[:6] == b"SQLite"
    assert run("ranks", tmp_path / "absent").code == 3
