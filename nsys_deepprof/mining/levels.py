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
class Windows:
    """The windows of a sequence, of each length in `WINDOW_LENGTHS`.

    `codes[row, i]` is the number of the window of `WINDOW_LENGTHS[row]` operations at operation
    `i`. Windows of all lengths are numbered through: those of a row from `base[row]` up to
    `base[row + 1]`. Row 0 are the symbols. `entropy` is that of the symbols, in nats.
    """

    codes: NDArray[np.int32]
    base: NDArray[np.int64]
    entropy: float

    @property
    def symbols(self) -> NDArray[np.int32]:
        """Row 0: the sequence itself."""
        row: NDArray[np.int32] = self.codes[0]
        return row

    @property
    def pairs(self) -> NDArray[np.int32]:
        """Row 1: every operation with the one after it."""
        row: NDArray[np.int32] = self.codes[1]
        return row

    @property
    def groups(self) -> int:
        """Different windows, of all lengths."""
        return int(self.base[-1])


@dataclass(frozen=True, slots=True)
class Level:
    """One candidate: the window `code` of a row of `Windows` occurs `count` times.

    `support` is the weight of all windows that return as often, in shares of the sequence.
    """

    row: int
    code: int
    count: int
    support: float


def find_windows(array: SuffixArray, symbols: NDArray[np.int32]) -> Windows:
    """The windows of a sequence; linear, from its suffix array."""
    codes = np.empty((len(WINDOW_LENGTHS), len(symbols)), np.int32)
    base = np.zeros(len(WINDOW_LENGTHS) + 1, np.int64)
    for row, length in enumerate(WINDOW_LENGTHS):
        codes[row] = symbols if length == 1 else window_codes(array, length)
        codes[row] += np.int32(base[row])
        base[row + 1] = int(codes[row].max()) + 1 if len(symbols) else base[row]
    share = np.bincount(symbols) / max(1, len(symbols))
    share = share[share > 0]
    return Windows(codes, base, float(-(share * np.log(share)).sum()))


def find_levels(windows: Windows, *, min_count: int = 2) -> list[Level]:
    """Candidate levels, most frequent first; none where nothing returns.

    At most `MAX_LEVELS`, those with the most support.
    """
    size = len(windows.symbols)
    if size < 2:
        return []
    count, first, last = (np.zeros(windows.groups, np.int32) for _ in range(3))
    log_sum, log_square = np.zeros(windows.groups), np.zeros(windows.groups)
    for code in windows.codes:
        _gap_statistics(code, count, first, last, log_sum, log_square)
    code_ = np.flatnonzero(count >= min_count)
    if not len(code_):
        return []
    count_ = count[code_]
    row_ = np.searchsorted(windows.base, code_, side="right") - 1
    gaps = count_ - 1
    variance = np.maximum(log_square[code_] / gaps - (log_sum[code_] / gaps) ** 2, 0.0)
    even = np.exp(-2 * variance) * (last[code_] - first[code_]) / size
    bucket = np.rint(np.log(count_) / math.log(COUNT_RATIO)).astype(np.int64)
    votes = np.bincount(bucket, weights=even * count_ / size)
    near = np.convolve(votes, [0.5, 1.0, 0.5], mode="same") if len(votes) > 1 else votes
    # Of equally even windows the shortest: it suffers least from noise.
    quality = even - 0.01 * row_
    best = np.full(len(votes), -np.inf)
    np.maximum.at(best, bucket, quality)
    candidates = np.flatnonzero(quality == best[bucket])
    candidates = candidates[np.unique(bucket[candidates], return_index=True)[1]]
    order = candidates[np.argsort(-near[bucket[candidates]], kind="stable")]
    picked: list[int] = []
    for row in order.tolist():
        if len(picked) == MAX_LEVELS:
            break
        # A neighbour of a bucket with more votes is the same level, blurred.
        if all(abs(int(bucket[row] - bucket[other])) > 1 for other in picked):
            picked.append(row)
    picked.sort(key=lambda row: (-int(count_[row]), row))
    return [
        Level(int(row_[r]), int(code_[r]), int(count_[r]), float(near[bucket[r]])) for r in picked
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
