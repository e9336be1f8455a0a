"""What makes two cycles the same: names in cyclic order, wherever they are cut."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from .jit import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence as Items

    from numpy.typing import NDArray


def least_rotation(symbols: NDArray[np.int32]) -> int:
    """The start of the lexicographically least rotation (the first of equal ones); linear."""
    return int(_least_rotation(symbols)) if len(symbols) else 0


@compiled
def _least_rotation(symbols: NDArray[np.int32]) -> int:
    size = len(symbols)
    i, j, k = 0, 1, 0
    while i < size and j < size and k < size:
        a, b = symbols[(i + k) % size], symbols[(j + k) % size]
        if a == b:
            k += 1
            continue
        if a > b:
            i += k + 1
        else:
            j += k + 1
        if i == j:
            j += 1
        k = 0
    return min(i, j)


def primitive_period(symbols: NDArray[np.int32]) -> int:
    """The length of the shortest word of which the symbols are a power; linear."""
    period = smallest_period(symbols)
    return period if period == 0 or len(symbols) % period == 0 else len(symbols)


def smallest_period(symbols: NDArray[np.int32]) -> int:
    """The least `p > 0` with `symbols[i] == symbols[i + p]` throughout; linear."""
    if not len(symbols):
        return 0
    return len(symbols) - int(borders(symbols)[-1])


@compiled
def borders(symbols: NDArray[np.int32]) -> NDArray[np.int32]:
    """For each prefix, the length of the longest word that both begins and ends it; linear."""
    border = np.zeros(len(symbols), np.int32)
    k = 0
    for i in range(1, len(symbols)):
        while k and symbols[i] != symbols[k]:
            k = border[k - 1]
        if symbols[i] == symbols[k]:
            k += 1
        border[i] = k
    return border


def pattern_id(body: NDArray[np.int32], names: Items[str]) -> str:
    """Twelve hexadecimal digits that name a cycle.

    Equal for every rotation and every power of the same cycle of names, in any lane, GPU or run:
    they depend on the texts and on nothing else.
    """
    body = body[: primitive_period(body)]
    used = np.unique(body).tolist()
    by_text = sorted(used, key=lambda code: names[code])
    rank = np.zeros(max(used, default=-1) + 1, np.int32)
    rank[by_text] = np.arange(len(by_text), dtype=np.int32)
    ranks = rank[body]
    start = least_rotation(ranks)
    digest = hashlib.blake2b(digest_size=6)
    for code in by_text:
        text = names[code].encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "little") + text)
    digest.update(np.roll(ranks, -start).astype("<u4").tobytes())
    return digest.hexdigest()
