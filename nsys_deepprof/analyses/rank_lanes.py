"""The ranks of a job: one lane each, with iterations that are cut and counted alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import intervals
from nsys_deepprof.analyses.compared_lanes import at_one_cut
from nsys_deepprof.analyses.gpu_state import gpu_states
from nsys_deepprof.analyses.mined import main_lanes, mined
from nsys_deepprof.analyses.occurrences import timed_turns
from nsys_deepprof.device import device_ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsys_deepprof.analyses.lanes import Lane
    from nsys_deepprof.intervals import Intervals
    from nsys_deepprof.mining.iterations import Iterations
    from nsys_deepprof.trace import Trace

CLOCK_ACCURACY_NS = 1_000_000
"""How well the session starts of files from several hosts agree, about."""

_PAIRWISE = r"(?i)send|recv"

TOLD_OFFSETS = 8
"""Files whose offsets are told one by one; `ranks` has them all."""


@dataclass(frozen=True)
class Rank:
    """One rank: a lane with iterations, in a trace.

    `place[i]` is the place in the body of the first rank that position `i` of this one's body is
    (-1: none); None where the bodies differ too much. `skipped` iterations come before the first
    one that is compared. `offset_ns` is how much later than the earliest file of the job this
    file's capture started; None where a file does not tell.
    """

    number: int
    trace: Trace
    lane: Lane
    found: Iterations
    place: np.ndarray[tuple[int], np.dtype[np.int64]] | None
    skipped: int
    offset_ns: int | None


def find_ranks(traces: Sequence[Trace]) -> tuple[list[Rank], int, list[str]]:
    """The ranks of a job, how many iterations all of them have in common, and notes.

    Each GPU and process with iterations is a rank, in the order of the files, then of GPU and
    process. Iterations are counted from the first one of the rank that begins last, if clocks can
    tell which of the others' that is: within a file they do; between files the session starts
    have to be known, and an iteration has to last much longer than they are accurate.
    """
    notes: list[str] = []
    chosen: list[tuple[Trace, Lane, Iterations]] = []
    for trace in traces:
        with_iterations = [m for m in main_lanes(mined(trace)) if m.found is not None]
        if not with_iterations:
            notes.append(
                f"{trace.source} has no iterations (`nsys-deepprof iterations` says why): it is "
                "left out."
            )
        chosen += [(trace, m.lane, m.found) for m in with_iterations if m.found is not None]
    if not chosen:
        return [], 0, notes
    reference = chosen[0]
    alike: list[tuple[Trace, Lane, Iterations, np.ndarray[tuple[int], np.dtype[np.int64]] | None]]
    alike = [(*reference, np.arange(len(reference[2].body)))]
    for trace, lane, found in chosen[1:]:
        compared = at_one_cut(reference[1], reference[2], lane, found, "iteration")
        if compared is None:
            notes.append(
                f"{lane.label} of {trace.source} runs other work than the first rank: its "
                "iterations are compared, the places in them are not."
            )
            alike.append((trace, lane, found, None))
            continue
        place = np.full(len(compared.b_found.body), -1, np.int64)
        columns = compared.columns
        both = columns.equal
        place[columns.b[both]] = columns.a[both]
        alike.append((trace, lane, compared.b_found, place))
    offsets = _offsets_ns(traces)
    skipped, shift_note = _skipped([(t, f) for t, _, f, _ in alike], offsets)
    notes += shift_note
    ranks = [
        Rank(number, trace, lane, found, place, skip, offsets.get(id(trace)))
        for number, ((trace, lane, found, place), skip) in enumerate(
            zip(alike, skipped, strict=True)
        )
    ]
    return ranks, max(min(timed_turns(r.found) - r.skipped for r in ranks), 0), notes


def collectives(ranks: Sequence[Rank], count: int) -> tuple[pl.DataFrame, int]:
    """Every communication kernel of the compared iterations that all ranks take part in.

    Returns one row per rank and call (`rank`, `iteration`, `name`, `ordinal`, `start_ns`, `end_ns`,
    `duration_ns`, `transfer_ns`: the shortest duration over the ranks), and how many calls could
    not be matched. Calls are matched by name and number: over all compared iterations where the
    ranks have equally many, else within an iteration that has equally many on all ranks. Sends and
    receives join two ranks: with more, they are not matched.
    """
    parts = []
    for rank in ranks:
        lane = rank.lane
        comm = device_ops(rank.trace).filter(
            (pl.col("gpu") == lane.gpu)
            & pl.col("global_pid").eq_missing(pl.lit(lane.global_pid))
            & (pl.col("state") == "comm")
        )
        turn = np.searchsorted(rank.found.start_ns, comm["start_ns"].to_numpy(), side="right") - 1
        parts.append(
            comm.select(
                pl.lit(rank.number, pl.Int64).alias("rank"),
                pl.Series("iteration", turn - rank.skipped, dtype=pl.Int64),
                pl.col("name").cast(pl.String),
                "start_ns",
                "end_ns",
                (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
            ).filter(pl.col("iteration").is_between(0, count - 1))
        )
    every = pl.concat(parts)
    pairwise = pl.col("name").str.contains(_PAIRWISE) if len(ranks) > 2 else pl.lit(False)
    calls = every.filter(~pairwise)
    everywhere = pl.col("rank").n_unique().over("name") == len(ranks)
    equal = pl.len().over("rank", "name").n_unique().over("name") == 1
    whole = calls.filter(everywhere & equal).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).over("rank", "name").alias("ordinal"),
        pl.lit(-1, pl.Int64).alias("within"),
    )
    rest = calls.filter(~(everywhere & equal)).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).over("rank", "name", "iteration").alias("ordinal"),
        pl.col("iteration").alias("within"),
    )
    same_count = (
        pl.len().over("rank", "name", "iteration").n_unique().over("name", "iteration") == 1
    ) & (pl.col("rank").n_unique().over("name", "iteration") == len(ranks))
    matched = pl.concat([whole, rest.filter(same_count)])
    key = ["name", "ordinal", "within"]
    matched = matched.with_columns(pl.col("duration_ns").min().over(key).alias("transfer_ns"))
    return matched.drop("within"), every.height - matched.height


def exposed_waits(rank: Rank, calls: pl.DataFrame) -> Intervals:
    """When the rank's GPU computes nothing and waits in a collective for the other ranks: all but
    the last `transfer_ns` of each of its calls."""
    mine = calls.filter(pl.col("rank") == rank.number)
    starts = mine["start_ns"].to_numpy()
    ends = (mine["end_ns"] - mine["transfer_ns"]).to_numpy()
    waits = intervals.union(starts, ends)
    if len(waits[0]) == 0:
        return waits
    first, last = int(waits[0][0]), int(waits[1][-1])
    compute = gpu_states(rank.trace)[rank.lane.gpu].layers[0]
    return intervals.intersect(waits, intervals.complement(compute, first, last))


def _offsets_ns(traces: Sequence[Trace]) -> dict[int, int | None]:
    """By trace, how much later than the first of all its capture started; None: not told."""
    starts = [trace.capture.start_utc_ns for trace in traces]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts):
        return {id(trace): 0 if len(traces) == 1 else None for trace in traces}
    return {
        id(trace): start - min(known)
        for trace, start in zip(traces, starts, strict=True)
        if start is not None
    }


def _skipped(
    ranks: Sequence[tuple[Trace, Iterations]], offsets: dict[int, int | None]
) -> tuple[list[int], list[str]]:
    """Per rank the number of iterations before the first that all ranks have, by the clocks."""
    none = [0] * len(ranks)
    files = len({id(trace) for trace, _ in ranks})
    if files > 1 and any(offset is None for offset in offsets.values()):
        return none, [
            "Not every file tells when its capture started: iterations are counted from each "
            "file's first."
        ]
    starts = [found.start_ns + (offsets[id(trace)] or 0) for trace, found in ranks]
    usual_ns = float(np.median([np.median(found.duration_ns) for _, found in ranks]))
    if files > 1 and usual_ns < 4 * CLOCK_ACCURACY_NS:
        return none, [
            "Iterations are too short for the clocks of several files to tell them apart: they "
            "are counted from each file's first."
        ]
    latest = max(int(start[0]) for start in starts)
    skipped = [int(np.argmin(np.abs(start - latest))) for start in starts]
    apart = [abs(int(s[k]) - latest) for s, k in zip(starts, skipped, strict=True)]
    if max(apart) > usual_ns / 2:
        return none, [
            "The ranks' iterations do not begin together: they are counted from each rank's first."
        ]
    notes = []
    if files > 1:
        later_ns = [offset for offset in offsets.values() if offset is not None]
        told = (
            "; ".join(f"+{offset / 1e6:.3f} ms" for offset in later_ns)
            if len(later_ns) <= TOLD_OFFSETS
            else f"up to +{max(later_ns) / 1e6:,.3f} ms"
        )
        notes.append(
            f"Files are aligned by the start of their capture ({told}), good to about a "
            "millisecond across hosts, and only to number iterations alike."
        )
    if any(skipped):
        notes.append(f"Iterations before the first that all ranks have: {skipped} by rank.")
    return skipped, notes
