"""Waits of one stream for another, through recorded events whose ids are used again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.device import device_ops
from nsys_deepprof.stream_waits import waits_of_ops

if TYPE_CHECKING:
    from pathlib import Path

Event = tuple[int, int, int, int]
"""Time of the call, stream, event id, event sync id."""


def export(records: list[Event], waits: list[Event], *, generation: str = "3.27") -> Export:
    built = Export(generation)
    for time, stream, event, sync in records:
        number = built.correlation()
        built.api(time, time + 1, correlation=number, name="cudaEventRecord_v3020")
        built.cuda_event(stream, number, event=event, event_sync=sync)
    for time, stream, event, sync in waits:
        number = built.correlation()
        built.api(time, time + 1, correlation=number, name="cudaStreamWaitEvent_v3020")
        built.sync(time, time, stream, number, kind="wait", event=event, event_sync=sync)
    return built


def waits(built: Export, folder: Path) -> dict[str, tuple[int | None, str | None]]:
    trace = nd.open_trace(built.write(folder / "x.sqlite"))
    found = device_ops(trace).hstack(waits_of_ops(trace))
    return {n: (s, o) for n, s, o in found.select("name", *waits_of_ops(trace).columns).iter_rows()}


@pytest.mark.parametrize("generation", ["3.27", "3.11"])
def test_a_wait_names_the_stream_and_its_last_work(tmp_path: Path, generation: str) -> None:
    """With and without sync ids; the event's id returns for another stream later."""
    built = export(
        [(20, 8, 5, 100), (60, 9, 5, 101)],
        [(30, 7, 5, 100), (70, 7, 5, 101)],
        generation=generation,
    )
    built.launch((10, 12), (15, 18), "a", stream=8).launch((14, 16), (18, 25), "b", stream=8)
    built.launch((35, 37), (40, 45), "first", stream=7)
    built.launch((50, 52), (55, 58), "c", stream=9)
    built.launch((75, 77), (80, 90), "second", stream=7)
    built.launch((80, 82), (90, 95), "free", stream=7)
    found = waits(built, tmp_path)
    assert found["first"] == (8, "b")
    assert found["second"] == (9, "c")
    assert {found[name] for name in ("a", "b", "c", "free")} == {(None, None)}


def test_a_wait_for_the_own_stream_is_none(tmp_path: Path) -> None:
    built = export([(5, 7, 1, 1)], [(8, 7, 1, 1)]).launch((10, 12), (15, 18), "a", stream=7)
    assert waits(built, tmp_path) == {"a": (None, None)}


def test_gaps_tell_what_the_next_work_waits_for(tmp_path: Path) -> None:
    built = export([(25, 8, 1, 1)], [(30, 7, 1, 1)])
    built.launch((0, 5), (10, 50), "there", stream=8)
    built.launch((35, 40), (30_050, 30_060), "here", stream=7)
    gap = nd.gaps(nd.open_trace(built.write(tmp_path / "g.sqlite"))).frame.row(0, named=True)
    assert gap["cause"] == "device_wait"
    assert (gap["waits_for_stream"], gap["waits_for_op"]) == (8, "there")


def test_without_event_rows_nothing_is_said(tmp_path: Path) -> None:
    built = Export().launch((0, 5), (10, 50), "a").launch((35, 40), (60, 70), "b")
    assert waits(built, tmp_path) == {"a": (None, None), "b": (None, None)}
