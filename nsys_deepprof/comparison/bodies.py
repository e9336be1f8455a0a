"""Two iteration bodies laid against each other, wherever each was cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nsys_deepprof.mining.align import align
from nsys_deepprof.mining.turns import Turns

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW_LENGTHS = (8, 3, 1)
"""Windows that occur once in each body vote for the rotation."""
VOTED = 3


@dataclass(frozen=True)
class Columns:
    """Places of two bodies side by side, in order: `a[i]` beside `b[i]`, -1 where one has none.

    `equal[i]`: both have the place, with the same work. Two different operations share a column
    where one stands exactly where the other was.
    """

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    equal: NDArray[np.bool_]

    @property
    def similarity(self) -> float:
        """Share of the longer body's places that are equal: a body is not like half of it."""
        places = max(int((self.a >= 0).sum()), int((self.b >= 0).sum()))
        return int(self.equal.sum()) / places if places else 0.0


def best_rotation(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """How far to turn `b` to the left so that it begins where `a` begins.

    Windows that occur once in each body vote; of the rotations with the most votes, and of what
    mends their ends, the one with the most equal places counts, then the one with the fewest
    columns: that an operation replaces another says more than that one is gone and the other added
    elsewhere (0 before others that are as good).
    """
    turns = [0]
    for length in WINDOW_LENGTHS:
        if min(len(a), len(b)) >= length:
            places_a, places_b = _unique_windows(a, b, length)
            votes = np.bincount((places_b - places_a) % len(b), minlength=len(b))
            turns += [t for t in np.argsort(-votes, kind="stable")[:VOTED].tolist() if votes[t]]
    scored = {turn: _score(a, b, turn) for turn in dict.fromkeys(turns)}
    best = max(scored, key=lambda turn: scored[turn][0])
    # What was put in near the cut shifts all that follows: the majority then begins too late or too
    # early, and the work in between is at the other end.
    _, columns = scored[best]
    matched = np.flatnonzero(columns.equal)
    if len(matched):
        lead = int((columns.b[: matched[0]] >= 0).sum())
        trail = int((columns.b[matched[-1] + 1 :] >= 0).sum())
        for turn in ((best + lead) % len(b), (best - trail) % len(b)):
            if turn not in scored:
                scored[turn] = _score(a, b, turn)
    return max(scored, key=lambda turn: scored[turn][0])


def _score(
    a: NDArray[np.int32], b: NDArray[np.int32], turn: int
) -> tuple[tuple[int, int, bool], Columns]:
    columns = lay_out(a, np.roll(b, -turn))
    score = int(columns.equal.sum()), -len(columns.a), bool(columns.equal[:1].any())
    return score, columns


def lay_out(a: NDArray[np.int32], b: NDArray[np.int32]) -> Columns:
    """The columns of two bodies that begin at the same place."""
    whole = Turns(np.array([0]), np.array([len(b)]), np.array([0]), 0, "given")
    position = align(b, whole, a).astype(np.int64)
    matched_b = np.flatnonzero(position >= 0)
    matched_a = position[matched_b]
    # Between two matches lie stretches of either body; stretches of one length are replacements.
    edges_a = np.r_[-1, matched_a, len(a)]
    edges_b = np.r_[-1, matched_b, len(b)]
    parts_a, parts_b = [], []
    for i in range(len(edges_a) - 1):
        only_a = np.arange(edges_a[i] + 1, edges_a[i + 1])
        only_b = np.arange(edges_b[i] + 1, edges_b[i + 1])
        if len(only_a) == len(only_b):
            parts_a.append(only_a)
            parts_b.append(only_b)
        else:
            parts_a += [only_a, np.full(len(only_b), -1)]
            parts_b += [np.full(len(only_a), -1), only_b]
        parts_a.append(edges_a[i + 1 : i + 2])
        parts_b.append(edges_b[i + 1 : i + 2])
    column_a, column_b = np.concatenate(parts_a)[:-1], np.concatenate(parts_b)[:-1]
    both = (column_a >= 0) & (column_b >= 0)
    equal = both.copy()
    equal[both] = a[column_a[both]] == b[column_b[both]]
    return Columns(column_a.astype(np.int64), column_b.astype(np.int64), equal)


def _unique_windows(
    a: NDArray[np.int32], b: NDArray[np.int32], length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of the cyclic windows that occur exactly once in each body."""
    windows = np.concatenate([_windows(a, length), _windows(b, length)])
    _, code = np.unique(windows, axis=0, return_inverse=True)
    code = code.reshape(-1)
    size = int(code.max()) + 1
    code_a, code_b = code[: len(a)], code[len(a) :]
    once = (np.bincount(code_a, minlength=size) == 1) & (np.bincount(code_b, minlength=size) == 1)
    place_a, place_b = np.zeros(size, np.int64), np.zeros(size, np.int64)
    place_a[code_a], place_b[code_b] = np.arange(len(a)), np.arange(len(b))
    return place_a[once], place_b[once]


def _windows(body: NDArray[np.int32], length: int) -> NDArray[np.int32]:
    windows: NDArray[np.int32] = body[
        (np.arange(len(body))[:, None] + np.arange(length)) % len(body)
    ]
    return windows
