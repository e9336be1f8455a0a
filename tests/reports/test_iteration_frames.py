"""Iterations as the report draws them, against slow counterparts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.analyses.anatomy import iteration_bars, iteration_gaps, median_iteration
from nsys_deepprof.analyses.depth_bins import depth_bins
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS
from nsys_deepprof.analyses.iterations import iterations
from nsys_deepprof.analyses.mined import mined
from nsys_deepprof.analyses.nest_blocks import Block, nest_blocks
from nsys_deepprof.analyses.queue_depth import queue_depth
from nsys_deepprof.analyses.report_data import communication_columns, iteration_columns
from nsys_deepprof.device import device_ops

DEMO = Path(__file__).parents[2] / "fixtures" / "train.sqlite"


def loop(turns: int, *, slow: int | None = None) -> Export:
    """Turns of a kernel, twice another, a blocking copy, and 10 us of nothing."""
    export = Export()
    at = 0
    for turn in range(turns):
        head_ns = 4_300 if turn == slow else 300
        for name, length in (("head", head_ns), ("body", 100), ("body", 100)):
            export.kernel(at, at + length, name=name)
            at += length + 1
        correlation = turn + 1
        export.api(at - 500, at + 900, correlation=correlation, name="cudaMemcpy_v3020")
        export.copy(
            at, at + 800, correlation=correlation, kind="DtoH", src="device", dst="pageable"
        )
        at += 10_800
    return export


@pytest.fixture
def turns(tmp_path: Path) -> nd.Trace:
    return nd.open_trace(loop(12, slow=7).write(tmp_path / "loop.sqlite"))


def test_the_median_iteration_is_in_the_middle(turns: nd.Trace) -> None:
    rows = iterations(turns).frame
    chosen = median_iteration(rows)
    durations = sorted(rows["duration_ns"])
    mine = rows.filter(pl.col("index") == chosen["index"])["duration_ns"].item()
    assert mine == durations[(len(durations) - 1) // 2]


@pytest.mark.parametrize("max_bars", [1, 5, 40, 10_000])
def test_bars_hold_every_operation_once(turns: nd.Trace, max_bars: int) -> None:
    row = iterations(turns).frame.row(3, named=True)
    start, end = row["start_ns"], row["end_ns"]
    bars = iteration_bars(turns, gpu=0, start_ns=start, end_ns=end, max_bars=max_bars)
    ops = device_ops(turns).filter((pl.col("start_ns") < end) & (pl.col("end_ns") > start))
    assert bars["ops"].sum() == ops.height == 4
    assert bars["busy_ns"].sum() == (ops["end_ns"] - ops["start_ns"]).sum()
    assert bars.filter("blocking")["ops"].to_list() == [1]
    assert (bars["end_ns"] > bars["start_ns"]).all()
    if max_bars == 10_000:
        assert bars["name"].to_list() == ["head", "body", "body", "Memcpy DtoH"]
    if max_bars == 1:
        # Kernels shorter than the step are one bar; a blocking copy stays alone.
        assert bars["ops"].to_list() == [3, 1]


def test_gaps_of_an_iteration_and_its_work_fill_it(turns: nd.Trace) -> None:
    row = iterations(turns).frame.row(3, named=True)
    place = {"gpu": 0, "start_ns": row["start_ns"], "end_ns": row["end_ns"]}
    idle = iteration_gaps(turns, **place)
    assert (idle["end_ns"] - idle["start_ns"]).sum() == row["idle_ns"]
    assert (
        iteration_gaps(turns, **place, max_gaps=1).row(0)[:2]
        == (idle.sort(pl.col("end_ns") - pl.col("start_ns")).row(-1)[:2])
    )


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_columns_stand_for_every_iteration(rows: list[tuple[int, bool]], most: int) -> None:
    frame = pl.DataFrame(
        {
            "lane": ["a"] * len(rows),
            "gpu": [0] * len(rows),
            "index": range(len(rows)),
            "duration_ns": [d for d, _ in rows],
            "outlier": [slow for _, slow in rows],
            "explanation": [f"why {d}" if slow else None for d, slow in rows],
            **{c: [d if c == "idle_ns" else 0 for d, _ in rows] for c in STATE_COLUMNS},
        }
    )
    columns = iteration_columns(frame, max_columns=most)
    assert columns.height <= most
    assert columns["iterations"].sum() == len(rows)
    assert columns["outliers"].sum() == sum(slow for _, slow in rows)
    for column in columns.iter_rows(named=True):
        mine = rows[column["first_index"] : column["last_index"] + 1]
        assert column["iterations"] == len(mine)
        assert column["max_ns"] == max(d for d, _ in mine)
        assert column["mean_ns"] == pytest.approx(sum(d for d, _ in mine) / len(mine))
        assert sum(column[c] for c in STATE_COLUMNS) == pytest.approx(column["mean_ns"])
        slowest = max((d for d, slow in mine if slow), default=None)
        assert column["explanation"] == (None if slowest is None else f"why {slowest}")


LAUNCHES = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 20), st.integers(0, 90)), min_size=1, max_size=12
)


@settings(deadline=None)
@given(LAUNCHES, st.integers(1, 30))
def test_depth_bins_hold_what_a_counter_sees(
    launches: list[tuple[int, int, int]], most: int
) -> None:
    export = Export()
    for number, (call, length, wait) in enumerate(launches):
        # Work of one stream does not overlap here, nor need it start in the calls' order.
        start = call + length + wait
        export.api(call, call + length, correlation=number + 1, name="cudaLaunchKernel")
        export.kernel(start, start + 1, correlation=number + 1)
    with TemporaryDirectory() as folder:
        trace = nd.open_trace(export.write(Path(folder) / "t.sqlite"))
        lane = "gpu0/pid1000/ctx1/stream7"
        bins = depth_bins(trace, [lane], max_bins=most)
        changes = queue_depth(trace).height

    def depth(t: int) -> int:
        return sum(c + n <= t < c + n + w for c, n, w in launches)

    if changes < 2:
        assert bins.height == 0
        return
    assert bins.height <= most
    assert set(bins["lane"]) == {lane}
    for row in bins.iter_rows(named=True):
        seen = [depth(t) for t in range(row["start_ns"], row["end_ns"])]
        assert row["depth_max"] == max(seen)
        assert row["depth_mean"] == pytest.approx(sum(seen) / len(seen))


def operations(blocks: tuple[Block, ...]) -> int:
    return sum(b.operations * (1 if b.times is None else int(b.times)) for b in blocks)


def test_blocks_of_a_nest_hold_every_operation_and_their_times_add_up() -> None:
    trace = nd.open_trace(DEMO)
    found = iterations(trace)
    one = next(m for m in mined(trace) if m.found is not None)
    anatomy = found.extra["anatomy"].filter(pl.col("lane") == one.lane.label)
    before, turn, after = nest_blocks(one, anatomy)
    assert operations((before, after)) + operations((turn,)) <= len(one.lane.sequence)
    assert operations(turn.parts) == turn.operations
    times: list[Any] = [part.time_ns for part in turn.parts]
    usual = (anatomy["median_ns"] + anatomy["gap_median_ns"]).sum()
    assert sum(times) == pytest.approx(usual, abs=len(anatomy))
    assert int(turn.times or 0) == found.frame.height
    assert turn.time_ns == found.frame["duration_ns"].sum()


def test_a_lane_without_iterations_is_told_from_end_to_end(real_trace: Any) -> None:
    trace = nd.open_trace(real_trace("transformer_step_a100_2026"))
    found = iterations(trace)
    assert found.frame.height == 0
    one = mined(trace)[0]
    blocks = nest_blocks(one, found.extra["anatomy"])
    assert operations(blocks) == len(one.lane.sequence)
    spent = sum(b.time_ns or 0 for b in blocks)
    assert spent == one.lane.sequence.end_ns.max() - one.lane.sequence.start_ns[0]


def test_columns_of_communication_hold_all_of_it() -> None:
    rows = pl.DataFrame(
        {
            "gpu": [0] * 5 + [1] * 2,
            "iteration": [0, 1, 2, 3, 4, 0, 1],
            "comm_ns": [3, 5, 0, 9, 4, 2, 2],
            "exposed_ns": [1, 5, 0, 4, 4, 2, 0],
            "overlapped_ns": [2, 0, 0, 5, 0, 0, 2],
        }
    )
    columns = communication_columns(rows, max_columns=3)
    assert columns.select("gpu", "first_index", "last_index", "iterations").rows() == [
        (0, 0, 1, 2),
        (0, 2, 3, 2),
        (0, 4, 4, 1),
        (1, 0, 0, 1),
        (1, 1, 1, 1),
    ]
    for part in ("exposed_ns", "overlapped_ns"):
        assert (columns[part] * columns["iterations"]).sum() == rows[part].sum()
    assert communication_columns(rows.with_columns(comm_ns=0)).height == 0
