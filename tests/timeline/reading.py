"""Timeline files read back: protobuf by the official schema, JSON by its own rules, both strictly.

Each reader gives the slices and counters with the names that a viewer would show, so that a file is
compared with what went into it, whatever its format.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TrackEvent

Slice = tuple[str, str, int, int, str, str, tuple[tuple[str, Any], ...]]
"""process, track, start and end in ns from the start, category, name, arguments by name."""


@dataclass
class Shown:
    """What a viewer shows. `subtracks` is how many tracks hold each (process, track name)."""

    slices: list[Slice] = field(default_factory=list)
    counters: list[tuple[str, str, str, int, float]] = field(default_factory=list)
    subtracks: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    order: list[tuple[str, str]] = field(default_factory=list)


def read_perfetto(content: bytes) -> Shown:
    """A protobuf trace. Every reference must resolve, every slice must end, none may overlap."""
    trace = Trace.FromString(content)
    assert trace.SerializeToString() == content, "not in the canonical form"
    shown = Shown()
    tracks: dict[int, TrackDescriptor] = {}
    names: dict[int, dict[str, dict[int, str]]] = {}
    open_slices: dict[int, tuple[int, TrackEvent]] = {}
    last_time: dict[int, int] = {}
    for packet in trace.packet:
        kind = packet.WhichOneof("data")
        if kind == "track_descriptor":
            _add_track(packet.track_descriptor, tracks, shown)
            continue
        sequence = packet.trusted_packet_sequence_id
        assert sequence != 0
        if packet.HasField("interned_data"):
            assert packet.sequence_flags == 1
            assert sequence not in names
            names[sequence] = _interned(packet.interned_data)
            continue
        assert kind == "track_event"
        assert packet.sequence_flags == 2
        event, time = packet.track_event, packet.timestamp
        uuid = event.track_uuid
        # A viewer sorts packets by time, and keeps the file's order where times are equal.
        # Timestamps are unsigned in the file: one before the start would be an enormous one.
        assert time < 1 << 63, "a time before the start"
        assert time >= last_time.get(uuid, 0), "a track goes back in time"
        last_time[uuid] = time
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert uuid not in open_slices, "two slices of a track overlap"
            open_slices[uuid] = (time, event)
        elif event.type == TrackEvent.TYPE_SLICE_END:
            start, begun = open_slices.pop(uuid)
            shown.slices.append(
                (*_place(tracks, uuid), start, time, *_said(begun, names[sequence]))
            )
        else:
            assert event.type == TrackEvent.TYPE_COUNTER
            process, name = _place(tracks, uuid)
            unit = tracks[uuid].counter.unit_name
            shown.counters.append((process, name, unit, time, event.double_counter_value))
    assert not open_slices, "a slice without an end"
    return shown


def _add_track(track: TrackDescriptor, tracks: dict[int, TrackDescriptor], shown: Shown) -> None:
    assert track.uuid != 0
    assert track.uuid not in tracks
    tracks[track.uuid] = track
    if track.HasField("process"):
        assert 0 < track.process.pid < 1 << 15
        assert track.child_ordering == TrackDescriptor.EXPLICIT
    else:
        place = _place(tracks, track.uuid)
        shown.subtracks[place] += 1
        if shown.subtracks[place] == 1:
            shown.order.append(place)


def _place(tracks: dict[int, TrackDescriptor], uuid: int) -> tuple[str, str]:
    track = tracks[uuid]
    return tracks[track.parent_uuid].process.process_name, track.name


def _interned(data: Any) -> dict[str, dict[int, str]]:
    tables = {
        "category": [(e.iid, e.name) for e in data.event_categories],
        "name": [(e.iid, e.name) for e in data.event_names],
        "argument": [(e.iid, e.name) for e in data.debug_annotation_names],
        "text": [(e.iid, e.str.decode()) for e in data.debug_annotation_string_values],
    }
    for entries in tables.values():
        assert (
            len({iid for iid, _ in entries}) == len({text for _, text in entries}) == len(entries)
        )
    return {kind: dict(entries) for kind, entries in tables.items()}


def _said(
    event: TrackEvent, names: dict[str, dict[int, str]]
) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    arguments: dict[str, Any] = {}
    for annotation in event.debug_annotations:
        kind = annotation.WhichOneof("value")
        value = getattr(annotation, kind)
        name = names["argument"][annotation.name_iid]
        assert name not in arguments
        arguments[name] = names["text"][value] if kind == "string_value_iid" else value
    (category,) = event.category_iids
    said = tuple(sorted(arguments.items()))
    return names["category"][category], names["name"][event.name_iid], said


def read_json(content: bytes) -> Shown:
    """A Trace Event Format file. Small dense numbers, named threads, nothing overlaps."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    document = json.loads(content, parse_float=str, parse_constant=refuse)
    shown = Shown()
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    ends: dict[tuple[int, int], int] = {}
    for event in document["traceEvents"]:
        pid, tid, arguments = event["pid"], event.get("tid"), event["args"]
        match event["ph"], event["name"]:
            case "M", "process_name":
                assert pid not in processes
                processes[pid] = arguments["name"]
            case "M", "thread_name":
                assert (pid, tid) not in threads
                threads[pid, tid] = arguments["name"].split(" [")[0]
                place = (processes[pid], threads[pid, tid])
                shown.subtracks[place] += 1
                if shown.subtracks[place] == 1:
                    shown.order.append(place)
            case "M", "process_sort_index" | "thread_sort_index":
                assert arguments["sort_index"] == (pid if tid is None else tid)
            case "X", name:
                start, length = _ns(event["ts"]), _ns(event["dur"])
                assert length >= 0
                assert start >= ends.get((pid, tid), 0), "two slices of a thread overlap"
                ends[pid, tid] = start + length
                said = tuple(sorted((k, _value(v)) for k, v in arguments.items()))
                place = (processes[pid], threads[pid, tid])
                shown.slices.append((*place, start, start + length, event["cat"], name, said))
            case "C", name:
                ((unit, value),) = arguments.items()
                where = (processes[pid], name, unit, _ns(event["ts"]))
                shown.counters.append((*where, float(value)))
            case unknown:
                raise AssertionError(f"unknown event {unknown}")
    assert sorted(processes) == list(range(1, len(processes) + 1))
    return shown


def _ns(microseconds: str) -> int:
    whole, decimals = microseconds.split(".")
    assert len(decimals) == 3
    return int(whole) * 1000 + int(decimals)


def _value(value: Any) -> Any:
    """Undo what the file does to numbers: floats were kept as text, large integers are text."""
    if isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            pass
        else:
            assert abs(number) >= 1 << 53, "a small integer as text"
            return number
    assert not isinstance(value, int) or abs(value) < 1 << 53
    return value
