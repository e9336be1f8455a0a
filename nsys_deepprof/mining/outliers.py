"""Why an iteration is slow: the place where it differs most from the usual one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from .jit import compiled

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as Sequence_

    from numpy.typing import NDArray

    from .iterations import Iterations
    from .sequence import Sequence

Cause = Literal["kernel", "gap", "work"]


@dataclass(frozen=True, slots=True)
class Usual:
    """What an iteration usually takes at each position of the body.

    `duration_ns` is the median duration of the operation there; `gap_ns[p]` the median idle time
    of the lane before it, and `gap_ns[len(body)]` that before the next iteration.
    """

    duration_ns: NDArray[np.float64]
    gap_ns: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The place that adds the most time to an iteration.

    `kernel`: the operation at `position` was slower; `gap`: the lane was idle longer before it (at
    the end of the body: before the next iteration); `work`: `operations` extra ones came before it.
    `symbol` is that operation, or the first extra one; None where there is none. `added_ns` is the
    time that this place adds, `total_ns` what all places of its cause add together.
    """

    cause: Cause
    position: int
    symbol: int | None
    added_ns: int
    operations: int
    total_ns: int


def gaps_before(sequence: Sequence) -> NDArray[np.int64]:
    """Idle time of the lane before each operation; 0 for the first."""
    gap = np.zeros(len(sequence), np.int64)
    reach = np.maximum.accumulate(sequence.end_ns)
    np.maximum(sequence.start_ns[1:] - reach[:-1], 0, out=gap[1:])
    return gap


def usual(found: Iterations, duration_ns: NDArray[np.int64], gap_ns: NDArray[np.int64]) -> Usual:
    """Medians over all iterations, from the operations' durations and the gaps before them."""
    size = len(found.body)
    inside = found.position >= 0
    # The gap before an iteration's first operation is the previous iteration's time.
    firsts = np.zeros(len(inside), bool)
    firsts[found.first] = True
    rows = inside & ~firsts
    gaps = grouped_median(found.position[rows], gap_ns[rows], size + 1)
    gaps[0] = 0.0
    following = found.first[1:]
    gaps[size] = np.median(gap_ns[following]) if len(following) else 0.0
    durations = grouped_median(found.position[inside], duration_ns[inside], size)
    return Usual(durations, gaps)


def grouped_median(
    group: NDArray[np.int32], values: NDArray[np.int64], groups: int
) -> NDArray[np.float64]:
    """The median of the values of each group; 0 for a group without any."""
    middle = _select(group, values, groups, [lambda n: (n - 1) // 2, lambda n: n // 2])
    median: NDArray[np.float64] = (middle[0] + middle[1]) / 2
    return median


def grouped_quantiles(
    group: NDArray[np.int32], values: NDArray[np.int64], groups: int, shares: tuple[float, ...]
) -> NDArray[np.float64]:
    """Quantiles, a row each: of each group the value nearest in rank; 0 without any."""
    ranks = [lambda n, share=share: round((n - 1) * share) for share in shares]
    return _select(group, values, groups, ranks)


def _select(
    group: NDArray[np.int32],
    values: NDArray[np.int64],
    groups: int,
    ranks: Sequence_[Callable[[int], int]],
) -> NDArray[np.float64]:
    """Of each group the values of given ranks (from its size), a row a rank.

    Selecting is linear, and there are no more groups than an iteration has operations.
    """
    result = np.zeros((len(ranks), groups))
    if not len(group):
        return result
    size = np.bincount(group, minlength=groups)
    bounds = np.r_[0, np.cumsum(size)]
    ordered = np.empty(len(values), np.int64)
    _collect(group, values, bounds[:-1].copy(), ordered)
    for number in np.flatnonzero(size).tolist():
        mine = ordered[bounds[number] : bounds[number + 1]]
        wanted = [rank(len(mine)) for rank in ranks]
        mine.partition(sorted(set(wanted)))
        result[:, number] = mine[wanted]
    return result


@compiled
def _collect(
    group: NDArray[np.int32],
    values: NDArray[np.int64],
    place: NDArray[np.int64],
    ordered: NDArray[np.int64],
) -> None:
    """Values of a group side by side; `place` is where each group begins, and is used up."""
    for i in range(len(group)):
        ordered[place[group[i]]] = values[i]
        place[group[i]] += 1


def explain(
    sequence: Sequence,
    found: Iterations,
    turn: int,
    usual_: Usual,
    gap_ns: NDArray[np.int64],
) -> Explanation | None:
    """Where iteration `turn` lost the most time; None where no place of it is slower."""
    low = int(found.first[turn])
    own = int(found.stop[turn])
    last = turn + 1 == len(found)
    high = own if last else int(found.first[turn + 1])
    rows = np.arange(low, high)
    size = len(found.body)
    position = found.position[rows].astype(np.int64)
    # Whatever follows the iteration is foreign, whatever it looks like.
    position[own - low :] = -1
    duration = (sequence.end_ns - sequence.start_ns)[rows]
    gap = gap_ns[rows].copy()
    gap[0] = 0
    matched = position >= 0
    place = np.where(matched, position, 0)
    candidates: list[Explanation] = []

    def one_of(cause: Cause, added: NDArray[np.float64], total: float) -> None:
        at = int(np.argmax(np.where(matched, added, -np.inf)))
        if matched[at]:
            symbol = int(sequence.symbols[low + at])
            where = int(position[at])
            candidates.append(Explanation(cause, where, symbol, round(added[at]), 0, round(total)))

    slower = duration - usual_.duration_ns[place]
    one_of("kernel", slower, float(slower[matched].sum()))
    # Where the operation before is missing or extra, the gap is still the one before this one.
    longer = gap - usual_.gap_ns[place]
    total = float(longer[matched].sum())
    after = 0.0 if last else float(gap_ns[high] - usual_.gap_ns[size])
    total += after
    one_of("gap", longer, total)
    if not last:
        symbol = int(sequence.symbols[high])
        candidates.append(Explanation("gap", size, symbol, round(after), 0, round(total)))
    edges = np.flatnonzero(np.diff(np.r_[False, ~matched, False].astype(np.int8)))
    extra = int((duration[~matched] + gap[~matched]).sum())
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        before = int(position[end]) if end < len(rows) else size
        work = int((duration[begin:end] + gap[begin:end]).sum())
        symbol = int(sequence.symbols[low + begin])
        candidates.append(Explanation("work", before, symbol, work, end - begin, extra))
    best = max(candidates, key=lambda candidate: candidate.added_ns, default=None)
    return best if best is not None and best.added_ns > 0 else None
