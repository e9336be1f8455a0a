# ruff: noqa: PLR0917 - compiled loops take their arrays by position
"""Turns laid against one body: which of its positions every operation takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .jit import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .turns import Turns

# A turn with more edits keeps what its beginning and its end have in common with the body.
MAX_EDITS = 400


def align(symbols: NDArray[np.int32], turns: Turns, body: NDArray[np.int32]) -> NDArray[np.int32]:
    """Per operation of the lane, its position in `body`; -1 for extra ones and outside of turns.

    A turn and the body are matched by the fewest insertions and deletions (a substituted kernel
    is one of each), up to `MAX_EDITS`. Positions increase within a turn.
    """
    position = np.full(len(symbols), -1, np.int32)
    trace = np.zeros((MAX_EDITS + 2, 2 * MAX_EDITS + 5), np.int32)
    _align_turns(symbols, turns.first, turns.stop, body, MAX_EDITS, trace, position)
    return position


@compiled
def _align_turns(
    symbols: NDArray[np.int32],
    first: NDArray[np.int64],
    stop: NDArray[np.int64],
    body: NDArray[np.int32],
    max_edits: int,
    trace: NDArray[np.int32],
    position: NDArray[np.int32],
) -> None:
    center = max_edits + 2
    for t in range(len(first)):
        low, high = first[t], stop[t]
        start, end = 0, len(body)
        while low < high and start < end and symbols[low] == body[start]:
            position[low] = start
            low += 1
            start += 1
        while low < high and start < end and symbols[high - 1] == body[end - 1]:
            high -= 1
            end -= 1
            position[high] = end
        rows, columns = high - low, end - start
        if rows == 0 or columns == 0:
            continue
        # Myers: furthest reach on diagonal k (operations minus positions) with d edits.
        found = -1
        for d in range(min(max_edits, rows + columns) + 1):
            for k in range(-d, d + 1, 2):
                if d == 0:
                    x = 0
                elif k == -d or (
                    k != d and trace[d - 1, center + k - 1] < trace[d - 1, center + k + 1]
                ):
                    x = trace[d - 1, center + k + 1]
                else:
                    x = trace[d - 1, center + k - 1] + 1
                y = x - k
                while x < rows and 0 <= y < columns and symbols[low + x] == body[start + y]:
                    x += 1
                    y += 1
                trace[d, center + k] = x
                if x >= rows and y >= columns:
                    found = d
                    break
            # Diagonals outside of this round must not win the next.
            trace[d, center - d - 1] = -1
            trace[d, center + d + 1] = -1
            if found >= 0:
                break
        if found < 0:
            continue
        k = rows - columns
        x = rows
        for d in range(found, -1, -1):
            if d == 0:
                before = 0
                entered = 0
            elif k == -d or (
                k != d and trace[d - 1, center + k - 1] < trace[d - 1, center + k + 1]
            ):
                before = k + 1
                entered = trace[d - 1, center + before]
            else:
                before = k - 1
                entered = trace[d - 1, center + before] + 1
            while x > entered:
                x -= 1
                position[low + x] = start + x - k
            if d:
                x = trace[d - 1, center + before]
                k = before
