"""Opening whatever is named as a trace: a converted dataset, or an export."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsys_deepprof import dataset, derived, extract, sources
from nsys_deepprof.errors import UsageError
from nsys_deepprof.trace import TableFacts, Trace, read_capture, table_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from nsys_deepprof.sources import Source
    from nsys_deepprof.string_ids import StringIds


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
