"""Where a series of figures changes its level: circular binary segmentation on ranks.

The test is the one of Olshen and others (2004, Biostatistics 5, 557-572), on ranks, so that one
wild run makes no change: is there a stretch of the series whose ranks differ from those of the
rest more than in shuffled series? A stretch that reaches to an end is one change, one between
is two (slower for a week, then fast again). Stretches found are searched again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALPHA = 0.01
"""A stretch is a change where so small a share of shuffled series has one that differs as much.
Asked twice (for stretches at an end, which need less evidence, and for any): a series without
change gets one with a probability of at most 0.02."""

SHUFFLES = 199
MIN_RUNS = 2
"""A stretch of fewer runs is an outlier, not a change."""

MIN_EFFECT = 0.02
"""Levels that differ by less, as a share of the earlier one, are the same for a reader."""


@dataclass(frozen=True)
class ChangePoint:
    """The level changes before run `index`, from `before` to `after` (medians of the stretches).

    `from_index` and `to_index` bound the two stretches: `[from_index, index)`, `[index, to_index)`.
    """

    index: int
    from_index: int
    to_index: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """The change as a share of the earlier level."""
        return self.after / self.before - 1


def change_points(
    values: NDArray[np.float64], *, min_effect: float = MIN_EFFECT, seed: int = 0
) -> list[ChangePoint]:
    """Changes of level of a series of positive figures in their order; seeded, so repeatable.

    With `ALPHA` and two-sided ranks a change needs 5 runs on either side, or fewer on one side
    where there are more on the other (2 after 20).
    """
    if len(values) == 0:
        return []
    cuts = _segment(np.asarray(values, np.float64), seed)
    cuts = _without_small(values, _sharpen(values, cuts), min_effect)
    bounds = [0, *cuts, len(values)]
    levels = [float(np.median(values[a:b])) for a, b in itertools.pairwise(bounds)]
    return [
        ChangePoint(bounds[k], bounds[k - 1], bounds[k + 1], levels[k - 1], levels[k])
        for k in range(1, len(bounds) - 1)
    ]


def _segment(values: NDArray[np.float64], seed: int) -> list[int]:
    cuts: list[int] = []
    open_parts = [(0, len(values))]
    while open_parts:
        begin, end = open_parts.pop()
        part = values[begin:end]
        found = _strongest(part, np.random.default_rng([seed, begin, end]))
        if found is None:
            continue
        inner = [cut for cut in found if 0 < cut < len(part)]
        # Ranks tell that there is a change; where it is, the figures tell better.
        here = [begin + cut for cut in _sharpen(part, inner)]
        cuts += here
        open_parts += itertools.pairwise([begin, *here, end])
    return sorted(cuts)


def _sharpen(values: NDArray[np.float64], cuts: list[int]) -> list[int]:
    """Move each cut to where what lies between its neighbours is nearest to two levels.

    The statistic of ranks is largest for stretches of equal length, not where the levels meet.
    """
    bounds = [0, *cuts, len(values)]
    for k in range(1, len(bounds) - 1):
        begin, end = bounds[k - 1], bounds[k + 1]
        places = range(begin + MIN_RUNS, end - MIN_RUNS + 1)
        misfits = [_misfit(values[begin:place]) + _misfit(values[place:end]) for place in places]
        bounds[k] = places[int(np.argmin(misfits))]
    return bounds[1:-1]


def _misfit(values: NDArray[np.float64]) -> float:
    return float(np.abs(values - np.median(values)).sum())


def _strongest(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[int, int] | None:
    """The stretch [i, j) that differs most from the rest, where that is no chance."""
    size = len(values)
    if size < 2 * MIN_RUNS:
        return None
    ranks = _ranks(values)
    shuffled = rng.permuted(np.tile(ranks, (SHUFFLES, 1)), axis=1)
    for lengths_of in (_at_ends, _anywhere):
        best, where = lengths_of(ranks[None, :])
        chance = (1 + np.count_nonzero(lengths_of(shuffled)[0] >= best[0] - 1e-9)) / (SHUFFLES + 1)
        if chance <= ALPHA:
            return int(where[0, 0]), int(where[0, 1])
    return None


def _at_ends(ranks: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Per row: the largest statistic of a stretch [0, j), and that stretch."""
    size = ranks.shape[1]
    lengths = np.arange(MIN_RUNS, size - MIN_RUNS + 1)
    sums = np.cumsum(ranks, axis=1)[:, lengths - 1]
    statistics = np.abs(sums) / np.sqrt(lengths * (size - lengths))
    at = statistics.argmax(axis=1)
    where = np.stack([np.zeros_like(at), lengths[at]], axis=1)
    return statistics[np.arange(len(ranks)), at], where


def _anywhere(ranks: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Per row: the largest statistic of a stretch [i, j), and that stretch.

    What lies between stretch and end is a stretch of its own: it too has `MIN_RUNS` at least.
    """
    rows, size = ranks.shape
    sums = np.concatenate((np.zeros((rows, 1)), np.cumsum(ranks, axis=1)), axis=1)
    best, where = np.zeros(rows), np.zeros((rows, 2), np.int64)
    for length in range(MIN_RUNS, size - 2 * MIN_RUNS + 1):
        starts = slice(MIN_RUNS, size - MIN_RUNS - length + 1)
        ends = slice(MIN_RUNS + length, size - MIN_RUNS + 1)
        differences = np.abs(sums[:, ends] - sums[:, starts])
        at = differences.argmax(axis=1)
        statistic = differences[np.arange(rows), at] / np.sqrt(length * (size - length))
        better = statistic > best
        best[better] = statistic[better]
        where[better] = np.stack([at, at + length], axis=1)[better] + MIN_RUNS
    return best, where


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks less their mean; equal values share theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared = np.cumsum(counts) - (counts - 1) / 2
    ranks: NDArray[np.float64] = shared[inverse] - (len(values) + 1) / 2
    return ranks


def _without_small(values: NDArray[np.float64], cuts: list[int], min_effect: float) -> list[int]:
    """Merge neighbours, the most alike first, until all levels differ enough."""
    while cuts:
        bounds = [0, *cuts, len(values)]
        levels = [np.median(values[a:b]) for a, b in itertools.pairwise(bounds)]
        steps = [abs(b / a - 1) for a, b in itertools.pairwise(levels)]
        least = int(np.argmin(steps))
        if steps[least] >= min_effect:
            return cuts
        cuts = cuts[:least] + cuts[least + 1 :]
    return cuts
