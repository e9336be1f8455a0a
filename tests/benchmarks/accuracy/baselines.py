"""Three other ways to find iterations, as their authors describe them.

None of them is told the number of iterations, and each gets the very lane that ours gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsys_deepprof.mining.repeats import occurrences
from nsys_deepprof.mining.suffix_tree import suffix_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsys_deepprof.mining.sequence import Sequence

GAP_NS = 2_000_000
MIN_TIMES = 3


def split_at_gaps(sequence: Sequence) -> NDArray[np.int64]:
    """Starts after every gap of more than 2 ms, and the very first operation."""
    if len(sequence) == 0:
        return np.empty(0, np.int64)
    reach = np.maximum.accumulate(sequence.end_ns)
    after = sequence.start_ns[1:] - reach[:-1] > GAP_NS
    return sequence.start_ns[np.r_[True, after]]


def even_anchor(sequence: Sequence) -> NDArray[np.int64]:
    """Starts at the kernel whose executions are spaced most evenly.

    Among kernels that occur at least three times and span half of the lane, the one with the least
    coefficient of variation of the time between two executions; of equal ones the earlier.
    """
    best: tuple[float, int] | None = None
    chosen = np.empty(0, np.int64)
    for code in range(len(sequence.names)):
        starts = sequence.start_ns[sequence.symbols == code]
        if len(starts) < MIN_TIMES:
            continue
        span = sequence.start_ns[-1] - sequence.start_ns[0]
        spacing = np.diff(starts)
        if 2 * (starts[-1] - starts[0]) < span or spacing.mean() == 0:
            continue
        key = (float(spacing.std() / spacing.mean()), int(starts[0]))
        if best is None or key < best:
            best, chosen = key, starts
    return chosen


def longest_repeat(sequence: Sequence) -> NDArray[np.int64]:
    """Starts at the occurrences, apart from each other, of the longest repeated substring.

    The longest that occurs twice without overlap: cut down to where its first two meet.
    """
    if len(sequence) < 2:
        return np.empty(0, np.int64)
    array = suffix_array(sequence.symbols)
    apart = np.abs(np.diff(array.suffixes.astype(np.int64)))
    usable = np.minimum(array.lcp[1:], apart)
    at = int(np.argmax(usable))
    length = int(usable[at])
    if length == 0:
        return np.empty(0, np.int64)
    start = int(array.suffixes[at])
    word = sequence.symbols[start : start + length]
    return sequence.start_ns[occurrences(sequence.symbols, word)]


BASELINES = {
    "gaps over 2 ms": split_at_gaps,
    "even anchor": even_anchor,
    "longest repeat": longest_repeat,
}
