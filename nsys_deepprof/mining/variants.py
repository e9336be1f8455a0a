"""Exact variants of an iteration, and the one body that stands for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .align import align
from .jit import compiled
from .loops import Nest, fold, merge_nests, shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .turns import Turns

# Distinct variants that are folded, the most frequent first, and their operations at most.
MAX_FOLDED = 64
# After so many without a shape in common, all others are taken to be noise too.
FEW_FOLDED = 8
MAX_FOLDED_SYMBOLS = 2_000_000
# Variants of one shape, up to the counts of their loops, stand for all where they are this many.
MAIN_SHARE = 0.5


def variant_numbers(symbols: NDArray[np.int32], turns: Turns) -> NDArray[np.int32]:
    """Per turn the number of its exact content: 0 the most frequent, then the earlier one."""
    prints = np.empty((3, len(turns)), np.int64)
    prints[2] = turns.stop - turns.first
    _fingerprints(symbols, turns.first, turns.stop, prints)
    _, index, inverse, count = np.unique(
        prints, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    number = np.empty(len(index), np.int32)
    number[np.lexsort((index, -count))] = np.arange(len(index), dtype=np.int32)
    return number[inverse.reshape(-1)]


@compiled
def _fingerprints(
    symbols: NDArray[np.int32],
    first: NDArray[np.int64],
    stop: NDArray[np.int64],
    prints: NDArray[np.int64],
) -> None:
    """Two polynomials in each turn's symbols, modulo primes: products fit into 64 bits."""
    for t in range(len(first)):
        a, b = 1, 1
        for i in range(first[t], stop[t]):
            code = int(symbols[i]) + 1
            a = (a * 1_000_000_007 + code) % 2_147_483_647
            b = (b * 998_244_353 + code) % 2_147_483_629
        prints[0, t] = a
        prints[1, t] = b


def main_body(
    symbols: NDArray[np.int32], turns: Turns, variant: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Nest]:
    """The body that stands for all turns, and its loop nest.

    Where turns mostly differ in nothing but the counts of their loops, it is the most frequent
    variant of that shape, and the nest has the ranges. Else (noise) it is the consensus: of every
    place, what most turns have there.
    """
    order, first_of = np.unique(variant, return_index=True)
    count = np.bincount(variant)
    folded: dict[tuple[object, ...], list[tuple[int, int, Nest]]] = {}
    seen = symbols_seen = 0
    for number in order[:MAX_FOLDED].tolist():
        if number == FEW_FOLDED and _most(folded) < MAIN_SHARE * seen:
            break
        turn = int(first_of[number])
        content = symbols[turns.first[turn] : turns.stop[turn]]
        symbols_seen += len(content)
        if number and symbols_seen > MAX_FOLDED_SYMBOLS:
            break
        nest = fold(content)
        folded.setdefault(shape(nest), []).append((int(count[number]), turn, nest))
        seen += int(count[number])
    best = max(folded.values(), key=_turns_of)
    if _turns_of(best) >= MAIN_SHARE * seen:
        turn = best[0][1]
        body = symbols[turns.first[turn] : turns.stop[turn]].copy()
        return body, merge_nests([nest for _, _, nest in best])
    body = consensus(symbols, turns, _typical_turn(turns))
    return body, fold(body)


def _turns_of(group: list[tuple[int, int, Nest]]) -> int:
    return sum(count for count, _, _ in group)


def _most(folded: dict[tuple[object, ...], list[tuple[int, int, Nest]]]) -> int:
    return max((_turns_of(group) for group in folded.values()), default=0)


def _typical_turn(turns: Turns) -> int:
    lengths = turns.stop - turns.first
    return int(np.argmin(np.abs(lengths - np.median(lengths))))


def consensus(symbols: NDArray[np.int32], turns: Turns, turn: int) -> NDArray[np.int32]:
    """One turn, less what fewer than half of the others have, plus what at least half have."""
    body = symbols[turns.first[turn] : turns.stop[turn]]
    position = align(symbols, turns, body)
    half = 0.5 * len(turns)
    present = np.bincount(position[position >= 0], minlength=len(body)) >= half
    inside = np.zeros(len(symbols) + 1, np.int64)
    np.add.at(inside, turns.first, 1)
    np.add.at(inside, turns.stop, -1)
    within = np.flatnonzero(np.cumsum(inside[:-1]) > 0)
    # The position that an extra operation follows: the last matched one of its turn, or -1.
    turn_start = np.searchsorted(turns.first, within, side="right") - 1
    last = np.maximum.accumulate(np.where(position[within] >= 0, within, -1))
    known = last >= turns.first[turn_start]
    follows = np.where(known, position[last], -1)
    extra = position[within] < 0
    width = int(symbols.max()) + 1
    key = (follows[extra].astype(np.int64) + 1) * width + symbols[within][extra]
    # In every turn an extra counts once.
    pair = np.unique(np.stack([key, turn_start[extra]]), axis=1)[0]
    added, times = np.unique(pair, return_counts=True)
    added = added[times >= half]
    places = np.r_[np.flatnonzero(present) * 2 + 2, (added // width) * 2 + 1]
    content = np.r_[body[present], (added % width).astype(np.int32)]
    result: NDArray[np.int32] = content[np.argsort(places, kind="stable")].astype(np.int32)
    # Turns that agree on nothing have no consensus but themselves.
    return result if len(result) else body.copy()
