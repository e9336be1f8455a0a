"""How well starts that were found match the true ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOLERANCE = 0.02
"""A start is hit within this share of the median true iteration."""


class Score(NamedTuple):
    """Precision, recall and F1 of iteration starts, and how many were found and are true."""

    precision: float
    recall: float
    f1: float
    found: int
    true: int


def score_starts(found_ns: NDArray[np.int64], true_ns: NDArray[np.int64], end_ns: int) -> Score:
    """Match each true start with at most one found start, and the other way round.

    Where nothing is to be found, finding nothing scores 1.
    """
    if len(true_ns) == 0 or len(found_ns) == 0:
        right = float(len(true_ns) == len(found_ns))
        return Score(right, right, right, len(found_ns), len(true_ns))
    within = TOLERANCE * float(np.median(np.diff(np.r_[true_ns, end_ns])))
    found_ns = np.sort(found_ns)
    hits, at = 0, 0
    for true in np.sort(true_ns).tolist():
        # In order, the first found start that is still free and near enough is the best choice.
        while at < len(found_ns) and found_ns[at] < true - within:
            at += 1
        if at < len(found_ns) and found_ns[at] <= true + within:
            hits += 1
            at += 1
    precision, recall = hits / len(found_ns), hits / len(true_ns)
    f1 = 2 * hits / (len(found_ns) + len(true_ns))
    return Score(precision, recall, f1, len(found_ns), len(true_ns))
