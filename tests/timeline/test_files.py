"""Files out = events in, in both formats, for anything that tracks can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsys_deepprof.reports.perfetto import to_perfetto
from nsys_deepprof.reports.trace_json import to_trace_json
from nsys_deepprof.tracks import Counters, Slices, place
from tests.timeline.reading import Shown, read_json, read_perfetto

if TYPE_CHECKING:
    from collections.abc import Callable

ORIGIN_NS = 1_772_000_123_456_789_012
PROCESSES = {1: "GPU 0", 2: "python (pid 4194303)"}

NAMES = st.one_of(
    st.sampled_from(
        ["gemm", "gemm<1>", "</script><script>", 'quote " and \\', "\u202egnp.exe", ""]
    ),
    st.text(max_size=8).filter(lambda t: " [" not in t),
)
COUNTS = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 127, 128, 2**53, -(2**53)])
)
SHARES = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "process": st.sampled_from(list(PROCESSES)),
            "track": st.sampled_from(["stream 7", "stream 13"]),
            "start_ns": st.integers(0, 60).map(lambda t: ORIGIN_NS + 997 * t),
            "length": st.integers(0, 9).map(lambda t: 499 * t),
            "category": st.sampled_from(["kernel", "memcpy"]),
            "name": NAMES,
            "count": COUNTS,
            "share": SHARES,
            "word": st.one_of(st.none(), NAMES.filter(lambda t: not t.strip("+-_ ").isdigit())),
            "yes": st.one_of(st.none(), st.booleans()),
        }
    ),
    max_size=30,
)
VALUES = st.lists(
    st.fixed_dictionaries(
        {
            "process": st.sampled_from(list(PROCESSES)),
            "track": st.sampled_from(["depth", "busy"]),
            "time_ns": st.integers(0, 10**12).map(lambda t: ORIGIN_NS + t),
            "value": st.floats(-1e9, 1e9),
        }
    ),
    max_size=20,
    unique_by=lambda row: (row["process"], row["track"], row["time_ns"]),
)
SCHEMA = {
    "process": pl.Int64,
    "track": pl.String,
    "start_ns": pl.Int64,
    "length": pl.Int64,
    "category": pl.String,
    "name": pl.Categorical,
    "count": pl.Int64,
    "share": pl.Float64,
    "word": pl.String,
    "yes": pl.Boolean,
}
FORMATS = pytest.mark.parametrize(
    ("write", "read"), [(to_perfetto, read_perfetto), (to_trace_json, read_json)]
)


def shown(
    write: Callable[..., Any],
    read: Callable[[bytes], Shown],
    events: list[dict[str, Any]],
    values: list[dict[str, Any]],
) -> Shown:
    frame = pl.DataFrame(events, schema=SCHEMA).with_columns(
        (pl.col("start_ns") + pl.col("length")).alias("end_ns")
    )
    counters = pl.DataFrame(
        values,
        schema={"process": pl.Int64, "track": pl.String, "time_ns": pl.Int64, "value": pl.Float64},
    )
    tracks = place(
        [Slices(frame.drop("length")), Counters("launches", counters)],
        processes=pl.DataFrame({"process": PROCESSES.keys(), "name": PROCESSES.values()}),
        origin_ns=ORIGIN_NS,
    )
    return read(b"".join(write(tracks)))


@FORMATS
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(EVENTS, VALUES)
def test_everything_comes_back(
    write: Callable[..., Any],
    read: Callable[[bytes], Shown],
    events: list[dict[str, Any]],
    values: list[dict[str, Any]],
) -> None:
    def expected(event: dict[str, Any]) -> tuple[Any, ...]:
        start, end = event["start_ns"], event["start_ns"] + event["length"]
        arguments = {
            "start_ns": start,
            "end_ns": end,
            **{k: event[k] for k in ("count", "share", "word", "yes") if event[k] is not None},
        }
        if read is read_json and "share" in arguments:
            arguments["share"] = float(arguments["share"])
        return (
            PROCESSES[event["process"]],
            event["track"],
            start - ORIGIN_NS,
            end - ORIGIN_NS,
            event["category"],
            event["name"],
            tuple(sorted(arguments.items())),
        )

    got = shown(write, read, events, values)
    slices = [(*s[:6], tuple((k, _number(k, v)) for k, v in s[6])) for s in got.slices]
    assert sorted(map(repr, slices)) == sorted(repr(expected(event)) for event in events)
    assert sorted(got.counters) == sorted(
        (PROCESSES[v["process"]], v["track"], "launches", v["time_ns"] - ORIGIN_NS, v["value"])
        for v in values
    )


def _number(name: str, value: Any) -> Any:
    # The JSON reader keeps the text of numbers with a decimal point.
    return float(value) if name == "share" else value


@FORMATS
def test_nothing_is_a_valid_file(write: Callable[..., Any], read: Callable[[bytes], Shown]) -> None:
    got = shown(write, read, [], [])
    assert got.slices == got.counters == got.order == []


def test_json_has_no_number_for_what_is_none() -> None:
    event = {"process": 1, "track": "t", "start_ns": ORIGIN_NS, "length": 1, "name": "k"}
    for share in (float("nan"), float("inf")):
        got = shown(to_trace_json, read_json, [{**event, "category": "c", "share": share}], [])
        assert [name for name, _ in got.slices[0][6]] == ["end_ns", "start_ns"]


@FORMATS
def test_what_overlaps_is_beside_and_what_follows_is_not(
    write: Callable[..., Any], read: Callable[[bytes], Shown]
) -> None:
    common = {"process": 1, "category": "kernel", "name": "k"}
    common |= dict.fromkeys(("count", "share", "word", "yes"))
    events = [
        {**common, "track": track, "start_ns": ORIGIN_NS + start, "length": length}
        for track, start, length in (("stream 7", 0, 10), ("stream 7", 9, 5), ("stream 8", 0, 10))
    ]
    events.append({**common, "track": "stream 8", "start_ns": ORIGIN_NS + 10, "length": 5})
    got = shown(write, read, events, [])
    assert dict(got.subtracks) == {("GPU 0", "stream 7"): 2, ("GPU 0", "stream 8"): 1}
