# ruff: noqa: PLR0917 - compiled loops take their arrays by position
"""Levels: how often things return. Every window of operations votes with its own count.

A program's loops show as groups of windows that occur equally often and in even gaps: as many as
there are iterations, or micro-steps, or layers. A level is such a group, held by one window that
stands for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .jit import compiled
from .suffix_tree import SuffixArray, window_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Short windows survive noise, long ones tell equal layers from what surrounds them.
WINDOW_LENGTHS = (1, 2, 4, 8, 16, 32)
COUNT_RATIO = 1.1
MAX_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Level:
    """One candidate: the windows with `code` among those of `length` occur `count` times.

    `support` is the weight of all windows that return as often, in shares of the sequence.
    """

    length: int
    code: int
    count: int
    support: float


def windows(array: SuffixArray, symbols: NDArray[np.int32]) -> dict[int, NDArray[np.int32]]:
    """The window codes of a sequence for every length in `WINDOW_LENGTHS`."""
    longer = {length: window_codes(array, length) for length in WINDOW_LENGTHS[1:]}
    return {1: symbols, **longer}


def find_levels(codes: dict[int, NDArray[np.int32]], *, min_count: int = 2) -> list[Level]:
    """Candidate levels, most frequent first; none where nothing returns.

    At most `MAX_LEVELS`, those with the most support.
    """
    size = len(codes[1])
    if size < 2:
        return []
    rows = []
    for length, code in codes.items():
        groups = int(code.max()) + 1
        count, first, last = (np.zeros(groups, np.int32) for _ in range(3))
        log_sum, log_square = np.zeros(groups), np.zeros(groups)
        _gap_statistics(code, count, first, last, log_sum, log_square)
        kept = np.flatnonzero(count >= min_count)
        gaps = count[kept] - 1
        mean = log_sum[kept] / gaps
        variance = np.maximum(log_square[kept] / gaps - mean**2, 0.0)
        evenness = np.exp(-2 * variance) * (last[kept] - first[kept] + mean * 0) / size
        rows.append((np.full(len(kept), length), kept, count[kept], evenness))
    length_, code_, count_, even_ = (np.concatenate(column) for column in zip(*rows, strict=True))
    if not len(count_):
        return []
    bucket = np.rint(np.log(count_) / math.log(COUNT_RATIO)).astype(np.int64)
    votes = np.bincount(bucket, weights=even_ * count_ / size)
    near = np.convolve(votes, [0.5, 1.0, 0.5], mode="same") if len(votes) > 1 else votes
    # Of equally even windows the shortest: it suffers least from noise.
    quality = even_ - 0.01 * np.log2(length_)
    best = np.lexsort((-quality, bucket))
    bucket_first = best[np.r_[True, np.diff(bucket[best]) > 0]]
    order = bucket_first[np.argsort(-near[bucket[bucket_first]], kind="stable")]
    picked: list[int] = []
    for row in order.tolist():
        if len(picked) == MAX_LEVELS:
            break
        # A neighbour of a bucket with more votes is the same level, blurred.
        if all(abs(int(bucket[row] - bucket[other])) > 1 for other in picked):
            picked.append(row)
    picked.sort(key=lambda row: (-int(count_[row]), row))
    return [
        Level(int(length_[r]), int(code_[r]), int(count_[r]), float(near[bucket[r]]))
        for r in picked
    ]


@compiled
def _gap_statistics(
    codes: NDArray[np.int32],
    count: NDArray[np.int32],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    log_sum: NDArray[np.float64],
    log_square: NDArray[np.float64],
) -> None:
    for i in range(len(codes)):
        code = codes[i]
        if count[code]:
            log_gap = math.log(i - last[code])
            log_sum[code] += log_gap
            log_square[code] += log_gap * log_gap
        else:
            first[code] = i
        count[code] += 1
        last[code] = i
