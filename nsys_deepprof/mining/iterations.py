"""The iterations of a lane: which turns, how long, how they differ from the usual one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .align import align
from .choice import Choice, Loop, choose
from .turns import Turns, cut
from .variants import main_body, variant_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .loops import Nest
    from .sequence import Sequence

# Slower than the median by more than so many scaled MADs, and by this share of it.
OUTLIER_MADS = 3.0
OUTLIER_SHARE = 0.05
# The factor that makes a MAD an estimate of a normal distribution's standard deviation.
MAD_SCALE = 1.4826


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of one lane.

    Iteration `t` is the operations `first[t] .. stop[t] - 1`; its time runs from `start_ns[t]`, the
    start of its first operation, to `end_ns[t]`, that of the next iteration's first one (the last:
    to the end of its own last). `variant[t]` numbers the exact contents by frequency. `body` stands
    for all of them: `nest` is its loop nest, and `position[i]` is the place of operation `i` in it,
    -1 for extra ones.
    """

    loop: Loop
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    variant: NDArray[np.int32]
    body: NDArray[np.int32]
    nest: Nest
    position: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.first)

    @property
    def duration_ns(self) -> NDArray[np.int64]:
        """Time of each iteration."""
        return self.end_ns - self.start_ns


def find_iterations(
    sequence: Sequence, *, unit: int | None = None
) -> tuple[Iterations | None, Choice]:
    """The iterations of a lane, or None; and the choice with its reason and its loops."""
    choice = choose(sequence, unit=unit)
    if choice.iteration is None:
        return None, choice
    return describe(sequence, choice.iteration), choice


def recut(sequence: Sequence, found: Iterations, position: int) -> Iterations:
    """The same iterations, cut before another position of the body.

    Raises ValueError where the body's position is not in the chain's template.
    """
    cycle = found.loop.cycle
    # Any operation at that position, seen from the nearest hit of the chain.
    at = np.flatnonzero(found.position == position)
    if not len(at):
        raise ValueError(f"no operation is at position {position}")
    hit = np.clip(np.searchsorted(cycle.position, at), 0, len(cycle.position) - 1)
    offsets = (cycle.phase[hit] + at - cycle.position[hit]) % cycle.period
    offset = int(np.bincount(offsets).argmax())
    turns = cut(sequence, cycle, offset=offset)
    if len(turns) < 2:
        return found
    return describe(sequence, Loop(cycle, turns, found.loop.share, found.loop.density))


def describe(sequence: Sequence, loop: Loop) -> Iterations:
    """The iterations that the turns of a loop are."""
    turns: Turns = loop.turns
    variant = variant_numbers(sequence.symbols, turns)
    body, nest = main_body(sequence.symbols, turns, variant)
    start_ns = sequence.start_ns[turns.first]
    last_ns = sequence.end_ns[turns.first[-1] : turns.stop[-1]].max()
    return Iterations(
        loop=loop,
        first=turns.first,
        stop=turns.stop,
        start_ns=start_ns,
        end_ns=np.r_[start_ns[1:], last_ns],
        variant=variant,
        body=body,
        nest=nest,
        position=align(sequence.symbols, turns, body),
    )


def is_outlier(duration_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which durations exceed the median by more than 3 scaled MADs and by more than 5 %."""
    if not len(duration_ns):
        return np.zeros(0, np.bool_)
    median = np.median(duration_ns)
    spread = MAD_SCALE * np.median(np.abs(duration_ns - median))
    above = duration_ns - median
    result: NDArray[np.bool_] = (above > OUTLIER_MADS * spread) & (above > OUTLIER_SHARE * median)
    return result
