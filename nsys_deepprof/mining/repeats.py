"""Repeats: what occurs more than once, each reported once, by the time that it explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .identity import borders, pattern_id, smallest_period
from .jit import compiled
from .suffix_tree import SuffixArray, tree_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .sequence import Sequence
    from .suffix_tree import Nodes

# A node one of whose longer children occurs nearly as often says nothing that the child does not.
NEARLY_ALL = 0.9
# Candidates that are looked at, and their symbols, as a multiple of the sequence's.
MAX_CANDIDATES = 256
MAX_CANDIDATE_SYMBOLS = 8


@dataclass(frozen=True, slots=True)
class Repeat:
    """A word and its occurrences, which do not overlap (leftmost first)."""

    word: NDArray[np.int32]
    first: NDArray[np.int64]
    pattern: str
    busy_ns: int

    @property
    def stop(self) -> NDArray[np.int64]:
        """Past the last operation of each occurrence."""
        return self.first + len(self.word)


def maximal_nodes(
    array: SuffixArray, symbols: NDArray[np.int32], nodes: Nodes
) -> NDArray[np.bool_]:
    """Which nodes are maximal repeats: no symbol to the left, or to the right, is common to all
    occurrences. To the right this holds for every node."""
    before = np.where(array.suffixes > 0, symbols[array.suffixes - 1], -1)
    changes = np.cumsum(np.r_[0, before[1:] != before[:-1]])
    maximal: NDArray[np.bool_] = changes[nodes.last] > changes[nodes.first]
    return maximal


def occurrences(symbols: NDArray[np.int32], word: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where a word occurs, leftmost first and without overlap; linear."""
    if not 0 < len(word) <= len(symbols):
        return np.empty(0, np.int64)
    places = np.empty(len(symbols) // len(word), np.int64)
    count = _search(symbols, word, borders(word), places)
    return places[:count].copy()


@compiled
def _search(
    symbols: NDArray[np.int32],
    word: NDArray[np.int32],
    border: NDArray[np.int32],
    places: NDArray[np.int64],
) -> int:
    count = 0
    k = 0
    for i in range(len(symbols)):
        while k and symbols[i] != word[k]:
            k = border[k - 1]
        if symbols[i] == word[k]:
            k += 1
        if k == len(word):
            places[count] = i + 1 - k
            count += 1
            k = 0
    return count


def busy_before(sequence: Sequence) -> NDArray[np.int64]:
    """For each operation, and past the last, the summed durations of those before it."""
    busy: NDArray[np.int64] = np.r_[0, np.cumsum(sequence.end_ns - sequence.start_ns)]
    return busy


def find_repeat(
    sequence: Sequence, word: NDArray[np.int32], busy: NDArray[np.int64] | None = None
) -> Repeat:
    """A word with its occurrences and the time in them; `busy` is `busy_before(sequence)`."""
    first = occurrences(sequence.symbols, word)
    busy = busy_before(sequence) if busy is None else busy
    return Repeat(
        word,
        first,
        pattern_id(word, sequence.names),
        int((busy[first + len(word)] - busy[first]).sum()),
    )


def top_repeats(
    sequence: Sequence, array: SuffixArray, *, limit: int, min_share: float = 0.01
) -> list[Repeat]:
    """The maximal repeats that explain most of a sequence's time, at least `min_share` of it.

    A repeat is reported once: not its rotations, not its powers, not its parts that occur hardly
    more often. What is ranked is the time in all occurrences but one: `w` before `ww`.
    """
    nodes = tree_nodes(array)
    count = nodes.last - nodes.first + 1
    kept = maximal_nodes(array, sequence.symbols, nodes)
    largest_child = np.zeros(len(count), np.int32)
    inner = nodes.parent >= 0
    np.maximum.at(largest_child, nodes.parent[inner], count[inner])
    kept &= largest_child < NEARLY_ALL * count
    # Overlap aside, a node explains at most this; more than all of it is overlap.
    reach = np.minimum((count.astype(np.int64) - 1) * nodes.depth, len(sequence))
    order = np.flatnonzero(kept)
    order = order[np.lexsort((nodes.depth[order], -reach[order]))][:MAX_CANDIDATES]
    busy = busy_before(sequence)
    found: dict[str, Repeat] = {}
    budget = MAX_CANDIDATE_SYMBOLS * len(sequence)
    for node in order.tolist():
        depth, start = int(nodes.depth[node]), int(array.suffixes[nodes.first[node]])
        budget -= depth
        if budget < 0:
            break
        word = sequence.symbols[start : start + depth]
        period = smallest_period(word)
        root = word[:period] if 2 * period <= depth else word
        if pattern_id(root, sequence.names) in found:
            continue
        repeat = find_repeat(sequence, root, busy)
        budget -= len(sequence) // 4
        if len(repeat.first) >= 2 and repeat.busy_ns >= min_share * sequence.busy_ns:
            found[repeat.pattern] = repeat
    ranked = sorted(found.values(), key=lambda r: -_repeated_ns(r))
    return _without_parts(ranked)[:limit]


def _repeated_ns(repeat: Repeat) -> float:
    times = len(repeat.first)
    return repeat.busy_ns * (times - 1) / times


def _without_parts(ranked: list[Repeat]) -> list[Repeat]:
    """Repeats less those that are part of a better one and occur hardly more often."""
    kept: list[Repeat] = []
    for repeat in ranked:
        if not any(
            len(repeat.word) <= len(other.word)
            and len(repeat.first) * NEARLY_ALL <= len(other.first)
            and len(occurrences(np.r_[other.word, other.word], repeat.word))
            for other in kept
        ):
            kept.append(repeat)
    return kept
