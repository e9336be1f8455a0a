"""What a timeline shows of a trace: what was recorded and what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import nsys_deepprof as nd
from fixtures.builder import Export
from fixtures.ids import global_tid
from nsys_deepprof.analyses.timeline_tracks import timeline_tracks
from nsys_deepprof.reports.perfetto import to_perfetto
from nsys_deepprof.reports.trace_json import to_trace_json
from tests.timeline.reading import Shown, Slice, read_json, read_perfetto

if TYPE_CHECKING:
    from pathlib import Path


def shown(path: Path, **options: Any) -> Shown:
    window = {k: options.pop(k) for k in ("from_ms", "to_ms", "nvtx", "gpus") if k in options}
    trace = nd.narrow(nd.open_trace(path), **window)
    return read_perfetto(b"".join(to_perfetto(timeline_tracks(trace, **options))))


def of(category: str, got: Shown) -> list[Slice]:
    return [s for s in got.slices if s[4] == category]


def spans(slices: list[Slice]) -> list[tuple[str, int, int]]:
    return [(name, start, end) for _, _, start, end, _, name, _ in slices]


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """A launch, a copy that blocks and 20 µs in a synchronise, a launch; from 1 ms on."""
    ms = 1_000_000
    return (
        Export()
        .launch((ms, ms + 1_000), (ms + 2_000, ms + 12_000), "gemm")
        .api(ms + 2_000, ms + 14_000, correlation=900, name="cudaMemcpy_v3020")
        .copy(ms + 12_000, ms + 13_000, correlation=900, kind="DtoH", src="device", dst="pageable")
        .api(ms + 14_000, ms + 34_000, name="cudaDeviceSynchronize_v3020")
        .launch((ms + 34_000, ms + 36_000), (ms + 40_000, ms + 50_000), "gemm")
        .nvtx(ms + 500, ms + 45_000, text="step")
        .write(tmp_path / "busy.sqlite")
    )


def test_streams_hold_the_device_work(busy: Path) -> None:
    got = shown(busy)
    assert spans(of("kernel", got)) == [("gemm", 2_000, 12_000), ("gemm", 40_000, 50_000)]
    assert spans(of("memcpy", got)) == [("Memcpy DtoH", 12_000, 13_000)]
    assert {s[1] for s in of("kernel", got) + of("memcpy", got)} == {
        "stream 7 (pid 1000, context 1)"
    }
    arguments = dict(of("kernel", got)[0][6])
    assert arguments["start_ns"] == 1_002_000
    assert arguments["end_ns"] == 1_012_000
    assert (arguments["grid"], arguments["block"]) == ("1x1x1", "128x1x1")


def test_gaps_are_named_by_their_cause(busy: Path) -> None:
    (gap,) = of("gap", shown(busy))
    assert spans([gap]) == [("sync", 13_000, 40_000)]
    arguments = dict(gap[6])
    assert (arguments["sync_ns"], arguments["launch_ns"]) == (21_000, 6_000)
    assert "host_ns" not in arguments


def test_short_gaps_are_left_out(busy: Path) -> None:
    assert of("gap", shown(busy, min_gap_ns=27_001)) == []
    assert len(of("gap", shown(busy, min_gap_ns=27_000))) == 1


def test_blocking_copies_have_a_track(busy: Path) -> None:
    (copy,) = of("blocking_copy", shown(busy))
    assert spans([copy]) == [("DtoH sync_api", 12_000, 13_000)]
    assert dict(copy[6])["host_blocked_ns"] == 12_000


def test_threads_hold_ranges_and_calls(busy: Path) -> None:
    got = shown(busy)
    assert spans(of("nvtx", got)) == [("step", 500, 45_000)]
    assert [s[5] for s in of("api", got)] == [
        "cudaLaunchKernel_v7000",
        "cudaMemcpy_v3020",
        "cudaDeviceSynchronize_v3020",
        "cudaLaunchKernel_v7000",
    ]


def test_annotations_alone(busy: Path) -> None:
    whole, alone = shown(busy), shown(busy, only_annotations=True)
    recorded = {"kernel", "memcpy", "memset", "graph", "nvtx", "api"}
    assert alone.slices == [s for s in whole.slices if s[4] not in recorded]
    assert alone.counters == whole.counters


def test_queue_depth_is_counted(busy: Path) -> None:
    depth = [c[3:] for c in shown(busy).counters if c[1].startswith("queue depth")]
    assert depth == [(1_000, 1.0), (2_000, 0.0), (36_000, 1.0), (40_000, 0.0)]


def test_a_deep_queue_is_thinned_where_only_annotations_are_asked(tmp_path: Path) -> None:
    built = Export()
    for number in range(6_000):
        built.launch((number * 100, number * 100 + 1), (number * 100 + 50, number * 100 + 60))
    # Two launches wait at the same time, once.
    built.launch((300_000, 300_002), (300_051, 300_052), "late")
    path = built.write(tmp_path / "deep.sqlite")

    def depths(got: Shown) -> list[float]:
        return [c[4] for c in got.counters if c[1].startswith("queue depth")]

    whole, thin = depths(shown(path)), depths(shown(path, only_annotations=True))
    assert len(whole) > 12_000
    assert len(thin) <= 4_096
    assert max(whole) == max(thin) == 2


def test_states_add_up_to_100_percent(busy: Path) -> None:
    got = shown(busy)
    values: dict[str, float] = {}
    names = [c[1] for c in got.counters if c[2] == "%"]
    assert set(names) == {"GPU compute", "GPU copy", "GPU idle"}
    for _, name, unit, time, value in sorted(got.counters, key=lambda c: c[3]):
        if unit == "%":
            values[name] = value
            last = time
    assert set(values.values()) == {0.0}
    assert last == 50_000


def test_a_window_keeps_what_starts_inside(busy: Path) -> None:
    got = shown(busy, from_ms=0.01, to_ms=0.03)
    assert of("kernel", got) == []
    assert spans(of("memcpy", got)) == [("Memcpy DtoH", 12_000, 13_000)]
    assert spans(of("gap", got)) == [("sync", 13_000, 30_000)]
    assert spans(of("nvtx", got)) == [("step", 500, 45_000)]
    assert [s[5] for s in of("api", got)] == ["cudaMemcpy_v3020", "cudaDeviceSynchronize_v3020"]


def test_numbers_and_times_that_a_viewer_cannot_hold(tmp_path: Path) -> None:
    start, pid = 1_772_000_123_456_789_012, 4_194_303
    path = (
        Export()
        .kernel(start, start + 1_000, pid=pid, name="a")
        .kernel(start + 999, start + 1_500, pid=pid, name="b")
        .api(start, start + 5, pid, pid, name="cudaFree_v3020")
        .write(tmp_path / "large.sqlite")
    )
    tracks = timeline_tracks(nd.open_trace(path))
    for write, read in ((to_perfetto, read_perfetto), (to_trace_json, read_json)):
        got = read(b"".join(write(tracks)))
        assert spans(of("kernel", got)) == [("a", 0, 1_000), ("b", 999, 1_500)]
        assert dict(of("kernel", got)[1][6])["start_ns"] == start + 999
        assert got.subtracks["GPU 0 (pid 4194303)", f"stream 7 (pid {pid}, context 1)"] == 2
    assert global_tid(pid, pid) > 1 << 32


def test_two_gpus_and_two_processes_are_apart(tmp_path: Path) -> None:
    path = (
        Export()
        .kernel(0, 10, device=0, pid=1)
        .kernel(0, 10, device=0, pid=2)
        .write(tmp_path / "two.sqlite")
    )
    got = shown(path)
    assert sorted({s[0] for s in of("kernel", got)}) == ["GPU 0 (pid 1)", "GPU 1 (pid 2)"]
    one = shown(path, gpus=[1])
    assert {place[0] for place in one.order} == {"GPU 1 (pid 2)"}


def test_no_gpu_work_is_a_file_of_host_events(tmp_path: Path) -> None:
    path = Export().nvtx(100, 200, text="alone").write(tmp_path / "host.sqlite")
    got = shown(path)
    assert spans(got.slices) == [("alone", 0, 100)]
    assert got.counters == []


def test_the_same_bytes_every_time(busy: Path) -> None:
    def content() -> bytes:
        return b"".join(to_perfetto(timeline_tracks(nd.open_trace(busy))))

    assert content() == content()


def test_every_event_of_a_real_trace_is_there_once(each_real_trace: Path) -> None:
    trace = nd.open_trace(each_real_trace)
    tracks = timeline_tracks(trace, min_gap_ns=0)
    got = read_perfetto(b"".join(to_perfetto(tracks)))
    origin = trace.span_ns()[0]
    for table, category in (
        ("kernels", "kernel"),
        ("graph_launches", "graph"),
        ("memcpys", "memcpy"),
        ("memsets", "memset"),
        ("nvtx_ranges", "nvtx"),
        ("api_calls", "api"),
    ):
        rows = trace.table(table).select("start_ns", "end_ns")
        assert sorted((s + origin, e + origin) for _, s, e in spans(of(category, got))) == sorted(
            rows.iter_rows()
        ), table
    idle = nd.info(trace).frame["idle_ns"].sum()
    assert sum(e - s for _, s, e in spans(of("gap", got))) == idle


def test_annotations_of_a_real_trace_are_its_added_tracks_in_both_formats(
    each_real_trace: Path,
) -> None:
    trace = nd.open_trace(each_real_trace)
    tracks = timeline_tracks(trace, only_annotations=True)
    protobuf = read_perfetto(b"".join(to_perfetto(tracks)))
    text = read_json(b"".join(to_trace_json(tracks)))
    assert {s[4] for s in protobuf.slices} <= {
        "loop",
        "iteration",
        "finding",
        "gap",
        "blocking_copy",
    }
    assert sorted(s[:6] for s in text.slices) == sorted(s[:6] for s in protobuf.slices)
    assert sorted(text.counters) == sorted(protobuf.counters)
    assert (trace.table("kernels").height == 0) or protobuf.slices or protobuf.counters
