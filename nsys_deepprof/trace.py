"""A trace: named frames with one schema, whatever they were read from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from nsys_deepprof import derived, extract
from nsys_deepprof.derived import TIMED_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from nsys_deepprof.sources import Source

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
    """Frames by name, read when first asked for. Make one with `opening.open_trace`.

    `windows` (columns gpu, start_ns, end_ns; disjoint per GPU) bounds what is analysed: see
    `windows.narrow`. None is the whole trace.
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
    _whole_results: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def table(self, name: str) -> pl.DataFrame:
        """The whole frame `name`, one of `TABLES`; the README documents their columns."""
        return self._table(name)[0]

    def facts(self, name: str) -> TableFacts:
        """Rows in the source, dropped rows by reason, and what was skipped, of one table."""
        return self._table(name)[1]

    def has(self, name: str) -> bool:
        """Whether the source has the table at all: an empty one counts, an absent one does not."""
        return self.facts(name).source_rows is not None

    def once(self, key: Any, compute: Callable[[], T], *, whole_trace: bool = False) -> T:
        """`compute()`, kept for the life of this trace: analyses build on each other.

        What is of the `whole_trace`, whatever its windows, is kept for `within` other windows too.
        """
        results = self._whole_results if whole_trace else self._results
        if key not in results:
            results[key] = compute()
        result: T = results[key]
        return result

    def within(self, windows: pl.DataFrame) -> Trace:
        """This trace, analysed inside `windows` only."""
        return replace(self, windows=windows, _results={})

    def span_ns(self) -> tuple[int, int]:
        """First start and last end over all timed events; (0, 0) for an empty trace."""
        return self.once(
            "span_ns",
            lambda: _span_ns([self.table(t) for t in _SPAN_TABLES]),
            whole_trace=True,
        )

    def _table(self, name: str) -> tuple[pl.DataFrame, TableFacts]:
        if name not in self._loaded:
            self._loaded[name] = self.load(name)
        return self._loaded[name]


_SPAN_TABLES = (*TIMED_TABLES, "nvtx_ranges")


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
