"""What the miner finds in each lane of a trace, found once for all analyses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nsys_deepprof.analyses.lanes import lanes
from nsys_deepprof.analyses.nvtx_marks import iteration_marks
from nsys_deepprof.mining.iterations import find_iterations, recut

if TYPE_CHECKING:
    from nsys_deepprof.analyses.lanes import Lane, Symbols
    from nsys_deepprof.mining.choice import Choice
    from nsys_deepprof.mining.iterations import Iterations
    from nsys_deepprof.trace import Trace

# Two cuts within this share of an iteration are the same one.
SAME_CUT_SHARE = 0.02
# Marks settle the phase where so many of them are at one place of the cycle.
MARKS_AGREE = 0.8
# A lane with less kernel time than this share of the busiest one's is no program of its own: a
# stream of collectives, or of a few helpers, repeats too.
SIDE_LANE_SHARE = 0.1


@dataclass(frozen=True)
class Mined:
    """A lane, its iterations (None: it has none) and the choice that was made.

    `nvtx` is the name of the ranges that mark iterations, `nvtx_agreement` the share of the
    iterations that begin where such a range's first work does: of the sequence alone, before the
    ranges were allowed to settle the phase. Both are None where there are no such ranges.
    """

    lane: Lane
    found: Iterations | None
    choice: Choice
    nvtx: str | None = None
    nvtx_agreement: float | None = None
    nvtx_settled: bool = False


def mined(
    trace: Trace,
    *,
    symbols: Symbols = "names",
    with_copies: bool = False,
    unit: int | None = None,
) -> list[Mined]:
    """What the miner finds in every lane, in the order of `lanes`."""
    key = ("mined", symbols, with_copies, unit)
    return trace.once(
        key,
        lambda: [
            _mine(trace, lane, unit)
            for lane in lanes(trace, symbols=symbols, with_copies=with_copies)
        ],
    )


def _mine(trace: Trace, lane: Lane, unit: int | None) -> Mined:
    found, choice = find_iterations(lane.sequence, unit=unit)
    marks = None if found is None else iteration_marks(trace, lane, found)
    if found is None or marks is None:
        return Mined(lane, found, choice)
    marked_ns = lane.sequence.start_ns[marks.operation]
    tolerance_ns = SAME_CUT_SHARE * float(np.median(found.duration_ns))
    nearest = np.searchsorted(marked_ns, found.start_ns)
    apart = np.minimum(
        np.abs(marked_ns[np.minimum(nearest, len(marked_ns) - 1)] - found.start_ns),
        np.abs(marked_ns[np.maximum(nearest - 1, 0)] - found.start_ns),
    )
    agreement = float((apart <= tolerance_ns).mean())
    place = found.position[marks.operation]
    settled = False
    if agreement < MARKS_AGREE and len(place):
        # The body's positions are counted from the cut: a mark elsewhere moves it there.
        usual = int(np.bincount(place[place >= 0], minlength=1).argmax())
        if usual and (place == usual).mean() >= MARKS_AGREE:
            found, settled = recut(lane.sequence, found, usual), True
    return Mined(lane, found, choice, marks.name, agreement, settled)


def main_lanes(every: list[Mined]) -> list[Mined]:
    """Per GPU and process the lane with the most iteration time, of those that matter there."""
    chosen: list[Mined] = []
    for key in dict.fromkeys((m.lane.gpu, m.lane.global_pid) for m in every):
        here = [m for m in every if (m.lane.gpu, m.lane.global_pid) == key]
        needed_ns = SIDE_LANE_SHARE * max(m.lane.compute_ns for m in here)
        able = [m for m in here if m.found is not None and m.lane.compute_ns >= needed_ns]
        if able:
            chosen.append(max(able, key=iteration_time_ns))
    return sorted(chosen, key=lambda m: (m.lane.gpu, m.lane.pid or 0, m.lane.label))


def iteration_time_ns(one: Mined) -> int:
    """From the start of the first iteration of the lane to the end of the last; 0 for none."""
    return 0 if one.found is None else int(one.found.end_ns[-1] - one.found.start_ns[0])
