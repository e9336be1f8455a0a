"""Loops and iterations on the time line, of a run whose structure is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.analyses.loop_turns import loop_turns
from nsys_deepprof.analyses.timeline_tracks import timeline_tracks

if TYPE_CHECKING:
    from pathlib import Path

    from nsys_deepprof.trace import Trace

LAYER = ["qkv", "attention", "mlp"]
LAYERS = 6
STEP = ["embed", *LAYER * LAYERS, "loss", *["adam"] * 9, "zero"]
STEPS = 12
WARM_UP = ["init", "seed"]
US = 1_000


@pytest.fixture
def nested(tmp_path: Path) -> Trace:
    """Two kernels of warm-up and 12 steps of `STEP`, one kernel every 20 µs, each 15 µs long."""
    built = Export()
    for number, name in enumerate([*WARM_UP, *STEP * STEPS]):
        built.kernel(20 * US * number, 20 * US * number + 15 * US, name=name)
    return nd.open_trace(built.write(tmp_path / "nested.sqlite"))


def start_of(step: int, kernel: int) -> int:
    return 20 * US * (len(WARM_UP) + step * len(STEP) + kernel)


def test_every_loop_is_there_with_its_turns(nested: Trace) -> None:
    found = loop_turns(nested)
    loops = found.filter(pl.col("turn").is_null())
    layers = loops.filter(pl.col("length") == len(LAYER))
    assert layers["times"].to_list() == [LAYERS] * STEPS
    assert layers["start_ns"].to_list() == [start_of(step, 1) for step in range(STEPS)]
    last = len(LAYER) * LAYERS
    assert layers["end_ns"].to_list() == [start_of(s, last) + 15 * US for s in range(STEPS)]
    updates = loops.filter(pl.col("length") == 1)
    assert updates["times"].to_list() == [9] * STEPS
    assert found["level"].to_list() == [1] * found.height


def test_turns_follow_one_another_inside_their_loop(nested: Trace) -> None:
    turns = loop_turns(nested).filter(pl.col("turn").is_not_null())
    assert turns.height == LAYERS * STEPS
    assert turns["turn"].to_list() == list(range(LAYERS)) * STEPS
    assert turns["start_ns"].to_list() == [
        start_of(step, 1 + len(LAYER) * turn) for step in range(STEPS) for turn in range(LAYERS)
    ]
    assert (turns["end_ns"] - turns["start_ns"]).to_list() == [55 * US] * turns.height


def test_a_lane_without_repeats_has_no_loops(tmp_path: Path) -> None:
    built = Export()
    for number in range(40):
        built.kernel(number * 10, number * 10 + 5, name=f"kernel {number}")
    assert loop_turns(nd.open_trace(built.write(tmp_path / "none.sqlite"))).height == 0


def test_the_timeline_shows_iterations_above_loops_above_streams(nested: Trace) -> None:
    tracks = timeline_tracks(nested)
    names = tracks.tracks["name"].unique(maintain_order=True).to_list()
    kinds = [name.split(" of ")[0] for name in names]
    assert kinds.index("iterations") < kinds.index("loops") < kinds.index("GPU compute")
    assert names[-1] == "stream 7 (pid 1000, context 1)"
    (shown,) = [f for f in tracks.slices if (f["category"] == "iteration").all()]
    assert shown["name"].to_list() == [f"iteration {k}" for k in range(STEPS)]
    assert shown["start_ns"].to_list() == [start_of(step, 0) for step in range(STEPS)]


def test_slow_iterations_say_why(tmp_path: Path) -> None:
    built, at = Export(), 0
    for step in range(20):
        for name in STEP:
            length = 900 * US if (step, name) == (9, "loss") else 15 * US
            built.kernel(at, at + length, name=name)
            at += length + 5 * US
    trace = nd.open_trace(built.write(tmp_path / "slow.sqlite"))
    (shown,) = [f for f in timeline_tracks(trace).slices if (f["category"] == "iteration").all()]
    slow = shown.filter(pl.col("explanation").is_not_null())
    assert slow["name"].to_list() == ["iteration 9 (slow)"]
    assert "loss" in slow["explanation"][0]


def test_findings_point_at_their_dearest_places() -> None:
    from tests.cli.conftest import TRAIN

    trace = nd.open_trace(TRAIN)
    (shown,) = [f for f in timeline_tracks(trace).slices if (f["category"] == "finding").all()]
    ranked = nd.findings(trace).frame
    expected = {
        (f"{rank}. {row['kind']}", place["start_ns"], place["end_ns"])
        for rank, row in enumerate(ranked.iter_rows(named=True), start=1)
        for place in row["evidence"]["rows"]
    }
    assert expected
    assert set(shown.select("name", "start_ns", "end_ns").iter_rows()) == expected
