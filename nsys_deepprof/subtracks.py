"""Overlapping intervals onto as few flat tracks as a viewer needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nsys_deepprof.intervals import Ints

FIRST_FIT_TRACKS = 64
"""Tracks that are filled one after the other. Filling one costs a pass over what is left, so what
does not fit on these is dealt out in turn, whose cost does not grow with the depth."""


def first_fit(starts: Ints, ends: Ints, *, filled: int = FIRST_FIT_TRACKS) -> Ints:
    """A track number per interval, from 0 up, such that no two intervals of a track overlap.

    Each interval takes, in order of start (the longest first, but for empty ones), the lowest track
    that is free: what runs one after another stays on track 0, and nested intervals are drawn by
    depth. An empty interval overlaps those that it lies strictly inside of. Beyond the first
    `filled` tracks intervals take the track that has been free for longest; there are still no more
    tracks than intervals overlap.
    """
    track = np.empty(len(starts), np.int64)
    left = np.lexsort((-ends, ends > starts, starts))
    for number in range(filled):
        if len(left) == 0:
            return track
        chosen = _earliest_chain(starts[left], ends[left])
        track[left[chosen]] = number
        left = left[~chosen]
    track[left] = filled + _longest_free(starts[left], ends[left])
    return track


def _earliest_chain(starts: Ints, ends: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Of intervals in order of start: the first, the first that starts when it is over, and so on.

    Every interval knows its successor; following pointers of doubling length marks the whole chain
    in a logarithmic number of passes.
    """
    count = len(starts)
    over = np.searchsorted(starts, ends, side="left")
    jump = np.append(np.maximum(over, np.arange(1, count + 1)), count)
    on_chain = np.zeros(count + 1, np.bool_)
    on_chain[0] = True
    while True:
        on_chain[jump[on_chain]] = True
        if jump[0] == count:
            return on_chain[:count]
        jump = jump[jump]


def _longest_free(starts: Ints, ends: Ints) -> Ints:
    """Intervals in order of start: the k-th that needs no new track takes that of the k-th to end.

    A new track is needed where more intervals are open than ever before.
    """
    index = np.arange(len(starts))
    # Sorted so, an empty interval ends after all that end where it starts.
    by_end = np.lexsort((starts, ends))
    ended = np.searchsorted(ends[by_end], starts, side="right")
    # An empty interval ends no later than it starts, but neither it nor those after it have yet.
    empty = ends == starts
    empties_through = np.cumsum(empty)
    last_at_start = np.searchsorted(starts, starts, side="right") - 1
    ended -= np.where(empty, empties_through[last_at_start] - empties_through + 1, 0)
    depth = index + 1 - ended
    deepest_before = np.maximum.accumulate(np.append(0, depth))[:-1]
    fresh = depth > deepest_before
    source = index.copy()
    source[~fresh] = by_end[: np.count_nonzero(~fresh)]
    while (source[source] != source).any():
        source = source[source]
    result: Ints = (np.cumsum(fresh) - 1)[source]
    return result
