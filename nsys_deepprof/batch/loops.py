"""Loops of different runs laid side by side: the same work, though names and cut differ.

A loop is a frame with a row per position: `name`, and figures of that position. Kernels of
different GPUs or builds have different names (`ampere_sgemm_128x64_tn`, `volta_sgemm_64x64_tn`),
so positions are matched by name, else by signature, else by their place between such matches.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof.mining.jit import compiled
from nsys_deepprof.signatures import signature

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from numpy.typing import NDArray

SAME_WORK = 0.6
"""Loops with at least this likeness are taken for the same work."""

MAX_CELLS = 1 << 27
"""Loops are laid side by side while the product of their lengths is at most this."""

SAME_NAME, SAME_SIGNATURE, SAME_PLACE = 4, 3, 1
"""What a match counts; a position that has none counts nothing."""

_WORDS = re.compile(
    r"(?<![a-z0-9])(?:sm_?\d+\w*|compute_?\d+|kepler|maxwell|pascal|volta|turing|ampere|ada|"
    r"hopper|blackwell|v\d+)(?![a-z0-9])|\d+x\d+(?:x\d+)*",
    re.IGNORECASE,
)


def work_signature(name: str) -> str:
    """A kernel's name without what depends on the GPU or the build.

    Beyond `signatures.signature`: architectures, tile sizes and what separates them.
    """
    text = _WORDS.sub(" ", signature(name).replace("_", " ").lower())
    return " ".join(text.split()) or name


def likeness(a: Counter[str], b: Counter[str]) -> float:
    """How much of two loops is the same, from 0 to 1: kernels by signature that both have, of all.

    Of `work_signature` counts; order does not matter, so loops cut anywhere compare.
    """
    both, either = (a & b).total(), (a | b).total()
    return both / either if either else 0.0


def match_loops(a: Sequence[str], b: Sequence[str]) -> pl.DataFrame | None:
    """Positions of loop `b` matched to those of loop `a`, both given as kernel names.

    Both are cut at a place that they share, then aligned. Columns: a, b (positions; null where
    the other loop has nothing there), match ('name', 'signature', 'place'; null likewise), in the
    order of `a`. None where the loops are too long to be laid side by side (`MAX_CELLS`).
    """
    if len(a) * len(b) > MAX_CELLS:
        return None
    names: dict[str, int] = {}
    codes_a, codes_b = _codes(a, names), _codes(b, names)
    signatures: dict[str, int] = {}
    of_name = _codes([work_signature(name) for name in names], signatures)
    signs_a, signs_b = of_name[codes_a], of_name[codes_b]
    at_a, at_b = _anchor(signs_a, signs_b, len(signatures))
    pairs = _align(
        np.roll(codes_a, -at_a),
        np.roll(codes_b, -at_b),
        np.roll(signs_a, -at_a),
        np.roll(signs_b, -at_b),
    )
    left = np.where(pairs[:, 0] >= 0, (pairs[:, 0] + at_a) % max(len(a), 1), -1)
    right = np.where(pairs[:, 1] >= 0, (pairs[:, 1] + at_b) % max(len(b), 1), -1)
    first = int(np.argmax(left == 0)) if len(a) else 0
    left, right = np.roll(left, -first), np.roll(right, -first)
    both = (left >= 0) & (right >= 0)
    same_name = both & (codes_a[left] == codes_b[right]) if len(a) and len(b) else both
    same_sign = both & (signs_a[left] == signs_b[right]) if len(a) and len(b) else both
    match = np.select([same_name, same_sign, both], ["name", "signature", "place"], default="none")
    return pl.DataFrame(
        {
            "a": pl.Series(left, dtype=pl.Int64).replace(-1, None),
            "b": pl.Series(right, dtype=pl.Int64).replace(-1, None),
            "match": pl.Series(match, dtype=pl.String).replace("none", None),
        }
    )


def _codes(texts: Sequence[str], known: dict[str, int]) -> NDArray[np.int64]:
    return np.array([known.setdefault(text, len(known)) for text in texts], np.int64)


def _anchor(a: NDArray[np.int64], b: NDArray[np.int64], kinds: int) -> tuple[int, int]:
    """A position of either loop that are the same place: both are cut there to be aligned.

    Of a kind with one place in each, or else of the rarest kind that both have, at the distance
    that most of its places are apart.
    """
    counts = np.bincount(a, minlength=kinds) * np.bincount(b, minlength=kinds)
    if not counts.any():
        return 0, 0
    asked = np.flatnonzero(counts == counts[counts > 0].min())
    votes = np.zeros(len(b), np.int64)
    for kind in asked:
        offsets = np.subtract.outer(np.flatnonzero(b == kind), np.flatnonzero(a == kind))
        np.add.at(votes, offsets.ravel() % len(b), 1)
    offset = int(votes.argmax())
    places = np.flatnonzero(np.isin(a, asked))
    there = (places + offset) % len(b)
    same = np.flatnonzero(a[places] == b[there])
    return int(places[same[0]]), int(there[same[0]])


def _align(
    codes_a: NDArray[np.int64],
    codes_b: NDArray[np.int64],
    signs_a: NDArray[np.int64],
    signs_b: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Pairs of positions with the largest total score, in order; -1 where one side has none."""
    shape = len(codes_a) + 1, len(codes_b) + 1
    flat = np.zeros(shape[0] * shape[1], np.int8)
    _fill(flat, codes_a, codes_b, signs_a, signs_b)
    step = flat.reshape(shape)
    pairs = []
    i, j = len(codes_a), len(codes_b)
    while i or j:
        way = step[i, j] if i and j else (1 if i else 2)
        i -= way != 2
        j -= way != 1
        pairs.append((i if way != 2 else -1, j if way != 1 else -1))
    return np.array(pairs[::-1], np.int64).reshape(-1, 2)


@compiled
def _fill(
    step: NDArray[np.int8],
    codes_a: NDArray[np.int64],
    codes_b: NDArray[np.int64],
    signs_a: NDArray[np.int64],
    signs_b: NDArray[np.int64],
) -> None:
    """The best last step at all pairs of prefixes, row by row: 0 a pair, 1 only `a`, 2 only `b`."""
    width = len(codes_b) + 1
    above = np.zeros(len(codes_b) + 1, np.int64)
    for i in range(1, len(codes_a) + 1):
        corner = above[0]
        for j in range(1, len(codes_b) + 1):
            if codes_a[i - 1] == codes_b[j - 1]:
                score = SAME_NAME
            elif signs_a[i - 1] == signs_b[j - 1]:
                score = SAME_SIGNATURE
            else:
                score = SAME_PLACE
            best, way = corner + score, 0
            if above[j] > best:
                best, way = above[j], 1
            if above[j - 1] > best:
                best, way = above[j - 1], 2
            corner = above[j]
            above[j] = best
            step[i * width + j] = way
