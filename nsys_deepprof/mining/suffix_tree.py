"""Suffix array, LCP array and the inner nodes of the suffix tree of an integer sequence.

Conventions: `suffixes[j]` is the start of the j-th smallest suffix; `lcp[j]` is the length of the
longest common prefix of suffixes `j - 1` and `j`, and `lcp[0]` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .jit import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SuffixArray(NamedTuple):
    """The suffix array and the LCP array of one sequence (int32, as long as the sequence)."""

    suffixes: NDArray[np.int32]
    lcp: NDArray[np.int32]


class Nodes(NamedTuple):
    """The inner nodes of a suffix tree, children before parents.

    Node `v` spells the `depth[v]` symbols that the suffixes `first[v] .. last[v]` (inclusive) of
    the suffix array have in common; it occurs `last[v] - first[v] + 1` times. `parent[v]` is
    -1 for a child of the root. The root itself (depth 0) is left out.
    """

    depth: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    parent: NDArray[np.int32]


def suffix_array(symbols: NDArray[np.int32]) -> SuffixArray:
    """Sort the suffixes of a sequence of codes 0, 1, 2, ... and measure their common prefixes."""
    size = len(symbols)
    if size == 0:
        return SuffixArray(np.empty(0, np.int32), np.empty(0, np.int32))
    import pydivsufsort

    # Narrow symbols sort several times faster.
    largest = int(symbols.max())
    width = np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32
    text = symbols.astype(width)
    suffixes = pydivsufsort.divsufsort(text)
    following = pydivsufsort.kasai(text, suffixes)
    lcp = np.empty(size, np.int32)
    lcp[0] = 0
    lcp[1:] = following[:-1]
    return SuffixArray(suffixes.astype(np.int32, copy=False), lcp)


def window_codes(array: SuffixArray, length: int) -> NDArray[np.int32]:
    """For every position, a code of the `length` symbols that start there.

    Codes are dense and equal exactly where the symbols are; a window that runs over the end of
    the sequence differs from all others.
    """
    codes = np.empty(len(array.suffixes), np.int32)
    starts = array.lcp < length
    if len(starts):
        starts[0] = True
    codes[array.suffixes] = np.cumsum(starts, dtype=np.int32) - np.int32(1)
    return codes


def tree_nodes(array: SuffixArray) -> Nodes:
    """The inner nodes of the suffix tree (the LCP intervals), in one linear pass."""
    size = len(array.lcp)
    depth, first, last, parent = (np.empty(size, np.int32) for _ in range(4))
    count = _sweep_intervals(array.lcp, depth, first, last, parent)
    # Copies, so that the over-long buffers are freed.
    return Nodes(*(column[:count].copy() for column in (depth, first, last, parent)))


@compiled
def _sweep_intervals(
    lcp: NDArray[np.int32],
    depth: NDArray[np.int32],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    parent: NDArray[np.int32],
) -> int:
    size = len(lcp)
    # An open interval is (depth, leftmost suffix); its closed children wait in a linked list
    # until the parent gets its number.
    open_depth = np.empty(size + 1, np.int32)
    open_first = np.empty(size + 1, np.int32)
    open_child = np.empty(size + 1, np.int32)
    sibling = np.empty(size + 1, np.int32)
    open_depth[0], open_first[0], open_child[0] = 0, 0, -1
    top = 0
    count = 0
    for j in range(1, size + 1):
        common = lcp[j] if j < size else 0
        left = j - 1
        carried = -1
        while open_depth[top] > common:
            depth[count] = open_depth[top]
            first[count] = open_first[top]
            last[count] = j - 1
            parent[count] = -1
            child = open_child[top]
            while child >= 0:
                parent[child] = count
                child = sibling[child]
            left = open_first[top]
            top -= 1
            if open_depth[top] >= common:
                sibling[count] = open_child[top]
                open_child[top] = count
            else:
                sibling[count] = -1
                carried = count
            count += 1
        if open_depth[top] < common:
            top += 1
            open_depth[top] = common
            open_first[top] = left
            open_child[top] = carried
    return count
