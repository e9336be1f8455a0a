"""A trace: named frames with one schema, whatever they were read from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from nsys_deepprof import derived, extract
from nsys_deepprof.derived import TIMED_TABLES
from nsys_deepprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nsys_deepprof.sources import Source
    from nsys_deepprof.string_ids import StringIds

T = TypeVar("T")

EVENT_TABLES = tuple(extract.EVENT_QUERIES)
TABLES = (*EVENT_TABLES, *derived.DESCRIPTIONS)
"""Every table of a trace, in the order in which a conversion makes them."""


@dataclass(frozen=True)
class Capture:
    """Facts about the capture; None where the export does not tell."""

    nsys_version: str | None = None
    schema_version: str | None = None
    start_utc_ns: int | None = None
    duration_ns: int | None = None


@dataclass(frozen=True)
class TableFacts:
    """What happened to one table on its way in."""

    source_rows: int | None
    dropped: dict[str, int]
    skipped: tuple[extract.Skip, ...]


@dataclass(frozen=True)
class Trace:
    """Frames by name, read when first asked for. Make one with `open_trace`.

    `windows` (columns gpu, start_ns, end_ns; disjoint per GPU) bounds what is analysed: see
    `narrow`. None is the whole trace.
    """

    source: str
    capture: Capture
    load: Callable[[str], tuple[pl.DataFrame, TableFacts]] = field(repr=False)
    windows: pl.DataFrame | None = None
    comm_patterns: tuple[str, ...] = ()
    _loaded: dict[str, tuple[pl.DataFrame, TableFacts]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _results: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def table(self, name: str) -> pl.DataFrame:
        """The whole frame `name`, one of `TABLES`; the README documents their columns."""
        return self._table(name)[0]

    def facts(self, name: str) -> TableFacts:
        """Rows in the source, dropped rows by reason, and what was skipped, of one table."""
        return self._table(name)[1]

    def has(self, name: str) -> bool:
        """Whether the source has the table at all: an empty one counts, an absent one does not."""
        return self.facts(name).source_rows is not None

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """`compute()`, kept for the life of this trace: analyses build on each other."""
        if key not in self._results:
            self._results[key] = compute()
        result: T = self._results[key]
        return result

    def span_ns(self) -> tuple[int, int]:
        """First start and last end over all timed events; (0, 0) for an empty trace."""
        return self.once("span_ns", lambda: _span_ns([self.table(t) for t in _SPAN_TABLES]))

    def _table(self, name: str) -> tuple[pl.DataFrame, TableFacts]:
        if name not in self._loaded:
            self._loaded[name] = self.load(name)
        return self._loaded[name]


_SPAN_TABLES = (*TIMED_TABLES, "nvtx_ranges")


def open_trace(
    run: str | Path,
    *,
    comm_patterns: Sequence[str] = (),
    nsys: str | None = None,
    message: Callable[[str], None] | None = None,
) -> Trace:
    """Open a converted dataset, or any export that `sources.open_source` knows.

    Kernels whose name matches one of the regular expressions `comm_patterns` count as
    communication too. `nsys` is the program that exports `.nsys-rep` files (default: the one on
    PATH); what it says goes to `message`. Reads no event before it is asked for. Raises InputError
    where the input cannot be used, UsageError for a pattern that is no regular expression.
    """
    from nsys_deepprof import dataset, sources

    for pattern in comm_patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"--comm {pattern}", f"not a regular expression: {error}") from error
    if dataset.is_dataset(Path(run)):
        trace = dataset.open_dataset(Path(run))
    else:
        trace = trace_of_source(sources.open_source(run, nsys=nsys, message=message), str(run))
    return replace(trace, comm_patterns=tuple(comm_patterns))


def trace_of_source(source: Source, name: str) -> Trace:
    """A trace over a source's own tables."""
    known: list[tuple[StringIds, list[extract.Skip]]] = []

    def strings() -> tuple[StringIds, list[extract.Skip]]:
        if not known:
            known.append(extract.read_strings(source))
        return known[0]

    def load(table: str) -> tuple[pl.DataFrame, TableFacts]:
        texts, no_texts = strings()

        def scan(other: str) -> pl.LazyFrame:
            return (got.frame if other == table else trace.table(other)).lazy()

        if table in derived.DESCRIPTIONS:
            frame, skipped = derived.describe(table, source, texts, scan)
            return frame, TableFacts(frame.height, {}, tuple(skipped))
        got = extract.read_events(source, table, texts)
        finish = derived.finisher(table, scan)
        if finish is not None:
            finished = finish(got.frame)
            got.dropped["no_device"] += got.frame.height - finished.height
            got.frame = finished
        if table == "kernels":
            got.skipped += no_texts
        return got.frame, table_facts(got)

    trace = Trace(source=name, capture=read_capture(source), load=load)
    return trace


def table_facts(tally: extract.Tally) -> TableFacts:
    """The facts of a table whose rows were counted in `tally`."""
    return TableFacts(tally.source_rows, dict(+tally.dropped), tuple(tally.skipped))


def read_capture(source: Source) -> Capture:
    """Versions, start and length of the capture, from whichever metadata tables exist."""
    meta: dict[str, str] = {}
    for query in ("export_metadata_2022", "export_metadata"):
        meta |= dict(extract.read_query(source, query).frame.iter_rows())
    start = extract.read_query(source, "session_start").frame
    length = extract.read_query(source, "capture_span").frame
    return Capture(
        nsys_version=meta.get("EXPORT_PRODUCT_VERSION"),
        schema_version=meta.get("EXPORT_SCHEMA_VERSION"),
        start_utc_ns=_first(start["utc_epoch_ns"]),
        duration_ns=_first(length["duration_ns"]),
    )


def narrow(
    trace: Trace,
    *,
    from_ms: float | None = None,
    to_ms: float | None = None,
    nvtx: str | None = None,
    gpus: Sequence[int] | None = None,
) -> Trace:
    """The same trace, analysed only inside a window, and only on some GPUs.

    `from_ms`, `to_ms` count from the trace's first event. `nvtx` keeps the time of the ranges of
    exactly that name, projected onto each GPU: from the first start to the last end of the work
    launched by the range's thread while the range was open (work runs later than its launch).
    Where launches are unknown the range's own host time is taken.

    Times that add up (states, gaps) are clipped to the window; an operation belongs to the window
    in which it starts. Raises UsageError when nothing is left.
    """
    if from_ms is None and to_ms is None and nvtx is None and gpus is None:
        return trace
    from nsys_deepprof.windows import nvtx_windows, time_windows

    first_ns, last_ns = trace.span_ns()
    start_ns = first_ns if from_ms is None else first_ns + round(from_ms * 1e6)
    end_ns = last_ns if to_ms is None else first_ns + round(to_ms * 1e6)
    if to_ms is None:
        # The window is half-open: an operation of no length at the very end is inside.
        end_ns += 1
    # Anything beyond the trace is the same as its ends; the numbers have to stay 64-bit.
    start_ns, end_ns = max(start_ns, first_ns), min(end_ns, last_ns + 1)
    if end_ns <= start_ns or start_ns > last_ns or end_ns <= first_ns:
        length_ms = (last_ns - first_ns) / 1e6
        raise UsageError(
            "--from/--to", f"selects nothing: the trace runs from 0 to {length_ms:.3f} ms"
        )
    windows = time_windows(trace, start_ns, end_ns)
    if gpus is not None:
        present = windows["gpu"].to_list()
        absent = [gpu for gpu in gpus if gpu not in present]
        if absent:
            here = ", ".join(map(str, present)) or "none"
            raise UsageError(f"--gpu {absent[0]}", f"no such GPU in this trace (there: {here})")
        windows = windows.filter(pl.col("gpu").is_in(gpus))
    if nvtx is not None:
        windows = nvtx_windows(trace, nvtx, windows)
    return replace(trace, windows=windows, _results={"span_ns": (first_ns, last_ns)})


def _first(column: pl.Series) -> int | None:
    value = column.first() if column.len() else None
    return value if isinstance(value, int) else None


def _span_ns(frames: list[pl.DataFrame]) -> tuple[int, int]:
    full = [f.select("start_ns", "end_ns") for f in frames if f.height]
    if not full:
        return 0, 0
    starts = [f["start_ns"].min() for f in full]
    ends = [f["end_ns"].max() for f in full]
    first = min(s for s in starts if isinstance(s, int))
    return first, max((e for e in ends if isinstance(e, int)), default=first)
