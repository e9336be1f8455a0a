"""Timeline bins against a painter that colours every nanosecond, and against `info`."""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.analyses.timeline import bin_edges, timeline
from nsys_deepprof.reports.timeline_chart import STATES, packed

STATE_COLUMNS = [f"{state}_ns" for state in STATES]

OPS = st.lists(
    st.tuples(
        st.sampled_from(["compute", "comm", "copy", "memset"]),
        st.integers(0, 90),
        st.integers(1, 30),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=12,
)


def written(ops: list[tuple[str, int, int, int]], folder: str) -> Path:
    export = Export()
    for kind, start, length, device in ops:
        place = (start, start + length, device)
        match kind:
            case "copy":
                export.copy(*place)
            case "memset":
                export.memset(*place)
            case _:
                export.kernel(*place, name={"compute": "gemm", "comm": "ncclAllReduce"}[kind])
    return export.write(Path(folder) / "t.sqlite")


def painted(ops: list[tuple[str, int, int, int]], device: int, t: int) -> str | None:
    """The state of the nanosecond t, or None outside of the device's window."""
    mine = [(kind, s, s + n) for kind, s, n, dev in ops if dev == device]
    if not mine or not min(s for _, s, _ in mine) <= t < max(e for _, _, e in mine):
        return None
    running = {kind for kind, s, e in mine if s <= t < e}
    return next((state for state in STATES if state in running), "idle")


@settings(deadline=None)
@given(ops=OPS, max_bins=st.integers(1, 40), cut=st.none() | st.integers(1, 60))
def test_bins_hold_what_a_painter_sees(
    ops: list[tuple[str, int, int, int]], max_bins: int, cut: int | None
) -> None:
    with TemporaryDirectory() as folder:
        trace = nd.open_trace(written(ops, folder))
        first_ns = trace.span_ns()[0]
        if cut is not None:
            if trace.span_ns()[1] <= first_ns + cut:
                return
            trace = nd.narrow(trace, from_ms=cut / 1e6)
        bins = timeline(trace, max_bins=max_bins)
    start = first_ns + (cut or 0)
    assert bins.height <= max(max_bins, 2)
    for row in bins.iter_rows(named=True):
        inside = range(max(row["start_ns"], start), row["end_ns"])
        seen = [painted(ops, row["gpu"], t) for t in inside]
        assert {s: seen.count(s) for s in STATES} == {s: row[f"{s}_ns"] for s in STATES}


@given(st.integers(-(10**6), 2**62), st.integers(1, 10**6), st.integers(1, 500))
def test_edges_cover_the_span_in_equal_bins(first: int, length: int, most: int) -> None:
    edges = bin_edges(first, first + length, most).tolist()
    widths = [b - a for a, b in itertools.pairwise(edges)]
    assert (edges[0], edges[-1]) == (first, first + length)
    assert len(widths) <= most
    assert len(set(widths[:-1])) <= 1
    assert 0 < widths[-1] <= widths[0]


def test_bins_of_real_traces_add_up_to_info(each_real_trace: Path) -> None:
    trace = nd.open_trace(each_real_trace)
    bins = timeline(trace, max_bins=1000)
    added = bins.group_by("gpu").agg(pl.col(STATE_COLUMNS).sum()).sort("gpu")
    assert added.equals(nd.info(trace).frame.sort("gpu").select("gpu", *STATE_COLUMNS))


def test_packing_keeps_the_smallest_share_visible(tmp_path: Path) -> None:
    import base64

    export = Export().kernel(0, 1).kernel(999_999, 1_000_000).copy(100_000, 600_000)
    trace = nd.open_trace(export.write(tmp_path / "t.sqlite"))
    data = packed(timeline(trace, max_bins=10), origin_ns=0)
    assert (data["bins"], data["bin_ms"], data["to_ms"]) == (10, 0.1, 1.0)
    shares = base64.b64decode(data["shares"][0])
    per_state = {state: list(shares[k * 10 : k * 10 + 10]) for k, state in enumerate(STATES)}
    assert per_state["compute"] == [1, *[0] * 8, 1]
    assert per_state["copy"] == [0, *[255] * 5, *[0] * 4]
    assert per_state["idle"] == [255, *[0] * 5, *[255] * 4]
