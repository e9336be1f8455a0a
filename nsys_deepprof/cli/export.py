"""`export`: the trace with what was found in it, for other programs' timelines."""

# Annotations are live objects here: Typer reads them, so they are not postponed.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsys_deepprof.cli.commands import windowed

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace


@windowed
def export(
    trace: "Trace",
    run: str,
    perfetto: Annotated[
        Path,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Write this file for ui.perfetto.dev: protobuf, or JSON if it is called *.json; "
            "compressed if it is called *.gz.",
            show_default=False,
        ),
    ],
    only_annotations: Annotated[
        bool,
        typer.Option(
            "--only-annotations",
            help="Only the tracks that this tool adds, to be opened beside the original.",
        ),
    ] = False,
    min_us: Annotated[
        float, typer.Option("--min-us", min=0, metavar="X", help="Show gaps of at least X µs.")
    ] = 10,
) -> None:
    """A timeline for ui.perfetto.dev, with all that was found.

    Each GPU with its iterations, loops, findings, idle gaps, blocking copies, states and queue
    depths above its streams; then each process with its threads.
    """
    from nsys_deepprof.analyses.timeline_tracks import timeline_tracks
    from nsys_deepprof.cli.writing import write_pieces
    from nsys_deepprof.reports.perfetto import to_perfetto
    from nsys_deepprof.reports.trace_json import to_trace_json

    tracks = timeline_tracks(
        trace, only_annotations=only_annotations, min_gap_ns=round(min_us * 1000)
    )
    kinds = [suffix.lower() for suffix in perfetto.suffixes[-2:]]
    as_json = kinds[-1:] == [".json"] or kinds == [".json", ".gz"]
    write_pieces((to_trace_json if as_json else to_perfetto)(tracks), perfetto, keep=Path(run))
    events = sum(frame.height for frame in tracks.slices)
    typer.echo(f"{perfetto}: {events:,} events on {tracks.tracks.height:,} tracks")
