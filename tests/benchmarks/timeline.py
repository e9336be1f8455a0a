"""Writing a timeline of a million kernels and calls, beside the official protobuf library.

usage: python -m tests.benchmarks.timeline [MILLIONS]    default 1

Seconds are those of the processor: the analyses, then the encoding of all events by columns, then
the same by the library, one packet after another, on a sample of the file.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as OfficialTrace

import nsys_deepprof as nd
from tests.benchmarks.big_export import write_big_export

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    """Processor time of `work`."""
    start = time.process_time()
    work()
    return time.process_time() - start


def reencoded(content: bytes) -> int:
    """Encode the packets anew through the library, field by field; their number."""
    read = OfficialTrace.FromString(content)
    packets = [p for p in read.packet if p.HasField("track_event")]
    trace = OfficialTrace()
    for packet in packets:
        new = trace.packet.add()
        new.timestamp = packet.timestamp
        new.trusted_packet_sequence_id = packet.trusted_packet_sequence_id
        new.sequence_flags = packet.sequence_flags
        event = new.track_event
        event.type = packet.track_event.type
        event.track_uuid = packet.track_event.track_uuid
        event.name_iid = packet.track_event.name_iid
        for argument in packet.track_event.debug_annotations:
            made = event.debug_annotations.add()
            made.name_iid = argument.name_iid
            made.int_value = argument.int_value
    trace.SerializeToString()
    return len(packets)


def main() -> None:
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else 1
    with tempfile.TemporaryDirectory() as folder:
        path = write_big_export(Path(folder) / "big.sqlite", round(millions * 1e6))
        trace = nd.open_trace(path)
        analysing = seconds(lambda: nd.timeline_tracks(trace))
        tracks = nd.timeline_tracks(trace)
        events = sum(f.height for f in tracks.slices) + tracks.counters.height
        pieces: list[bytes] = []
        encoding = seconds(lambda: pieces.extend(nd.to_perfetto(tracks)))
        size = sum(map(len, pieces))
        sample = max(pieces, key=len)
        packets = len(OfficialTrace.FromString(sample).packet)
        library = seconds(lambda: reencoded(sample))
    print(f"{events:,} events, {size / 1e6:.0f} MB")
    each = encoding / events * 1e6
    print(f"analyses {analysing:.1f} s, encoding {encoding:.2f} s ({each:.2f} µs an event)")
    print(f"the library: {library / packets * 1e6:.2f} µs a packet, reading the sample included")


if __name__ == "__main__":
    main()
