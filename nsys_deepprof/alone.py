"""When one kind of work has a GPU to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsys_deepprof import intervals

if TYPE_CHECKING:
    import numpy.typing as npt

    from nsys_deepprof.intervals import Intervals, Ints


def alone_ns(starts: Ints, ends: Ints, labels: npt.NDArray[np.int64], within: Intervals) -> Ints:
    """For each label 0..n-1, the ns of `within` (disjoint) in which intervals of that label run
    and of no other label do."""
    count = int(labels.max()) + 1 if len(labels) else 0
    total = np.zeros(count, np.int64)
    keep = ends > starts
    if not keep.all():
        starts, ends, labels = starts[keep], ends[keep], labels[keep]
    if len(starts) == 0:
        return total
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends, labels = starts[order], ends[order], labels[order]
    # What overlaps nothing is alone throughout: mostly that is nearly all.
    clear = np.concatenate(([True], starts[1:] >= np.maximum.accumulate(ends)[:-1]))
    apart = clear & np.concatenate((clear[1:], [True]))
    length = intervals.covered_between(within, starts, ends)
    length[~apart] = 0
    np.add.at(total, labels, length)
    if apart.all():
        return total
    starts, ends, labels = starts[~apart], ends[~apart], labels[~apart]
    edges = np.concatenate((starts, ends))
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    step = np.where(order < len(starts), 1, -1).astype(np.int64)
    label = labels[order % len(starts)]
    # Between two edges n intervals run, whose labels add up to s and their squares to q: they are
    # all the same exactly when n * q = s * s (Cauchy-Schwarz), and then the label is s / n.
    running = np.cumsum(step)[:-1]
    added = np.cumsum(step * label)[:-1]
    squares = np.cumsum(step * label * label)[:-1]
    single = (running > 0) & (running * squares == added * added)
    length = intervals.covered_between(within, edges[:-1], edges[1:])
    np.add.at(total, added[single] // running[single], length[single])
    return total
