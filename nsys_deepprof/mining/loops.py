"""Loop nests: runs of a sequence folded, level by level, into a readable tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

# A run is folded where that shortens the sequence by so many symbols, or by this share of it.
MIN_SAVED = 8
MIN_SAVED_SHARE = 0.25
MAX_PERIODS = 32
MAX_PASSES = 12


@dataclass(frozen=True, slots=True)
class Literal:
    """Symbols that are executed once, in order."""

    symbols: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A body executed `least` to `most` times in a row."""

    body: Nest
    least: int
    most: int


Nest: TypeAlias = "tuple[Literal | Repeated, ...]"


def fold(symbols: NDArray[np.int32]) -> Nest:
    """The loop nest of a sequence: innermost runs first, then runs of what they leave.

    A run of `p` symbols is cut where it begins, and folded where it is worth it (`MIN_SAVED`).
    Runs of the same body are equal, however many turns they have.
    """
    tokens = symbols.astype(np.int32)
    base = int(tokens.max()) + 1 if len(tokens) else 0
    bodies: list[tuple[int, ...]] = []
    known: dict[tuple[int, ...], int] = {}
    trees: list[Literal | Repeated | None] = [None] * len(tokens)
    for _ in range(MAX_PASSES):
        runs = _runs(tokens)
        if not runs:
            break
        pieces: list[NDArray[np.int32]] = []
        kept: list[Literal | Repeated | None] = []
        at = 0
        for start, period, count in runs:
            body = tuple(tokens[start : start + period].tolist())
            if body not in known:
                known[body] = base + len(bodies)
                bodies.append(body)
            pieces += [tokens[at:start], np.array([known[body]], np.int32)]
            kept += trees[at:start]
            spans = [
                _nest(tokens[low : low + period], trees[low : low + period])
                for low in range(start, start + period * count, period)
            ]
            kept.append(Repeated(merge_nests(spans), count, count))
            at = start + period * count
        pieces.append(tokens[at:])
        kept += trees[at:]
        tokens, trees = np.concatenate(pieces), kept
    return _nest(tokens, trees)


def _nest(tokens: NDArray[np.int32], trees: list[Literal | Repeated | None]) -> Nest:
    parts: list[Literal | Repeated] = []
    pending: list[int] = []
    for token, tree in zip(tokens.tolist(), trees, strict=True):
        if tree is None:
            pending.append(token)
            continue
        if pending:
            parts.append(Literal(tuple(pending)))
            pending = []
        parts.append(tree)
    if pending:
        parts.append(Literal(tuple(pending)))
    return tuple(parts)


def merge_nests(nests: list[Nest]) -> Nest:
    """Nests of one shape as one, with the range of each loop's turns."""
    merged = nests[0]
    for nest in nests[1:]:
        if nest != merged:
            merged = tuple(_merge(a, b) for a, b in zip(merged, nest, strict=True))
    return merged


def _merge(a: Literal | Repeated, b: Literal | Repeated) -> Literal | Repeated:
    if isinstance(a, Literal) or isinstance(b, Literal):
        return a
    return replace(
        a,
        body=merge_nests([a.body, b.body]),
        least=min(a.least, b.least),
        most=max(a.most, b.most),
    )


def shape(nest: Nest) -> tuple[object, ...]:
    """A nest without its counts: equal for nests that differ in the turns of their loops only."""
    return tuple(
        part.symbols if isinstance(part, Literal) else ("loop", shape(part.body)) for part in nest
    )


def nest_text(nest: Nest) -> str:
    """The nest in one line: `5, (9)x12, 7`; a count that varies is `x8..16`."""
    parts = []
    for part in nest:
        if isinstance(part, Literal):
            parts.append(str(len(part.symbols)))
        else:
            parts.append(f"({nest_text(part.body)})x{times_text(part.least, part.most)}")
    return ", ".join(parts)


def times_text(least: int, most: int) -> str:
    """`12`, or `8..16` where the count varies."""
    return str(least) if least == most else f"{least}..{most}"


def nest_symbols(nest: Nest) -> list[int]:
    """The symbols of a nest, every loop with its most turns."""
    symbols: list[int] = []
    for part in nest:
        if isinstance(part, Literal):
            symbols += part.symbols
        else:
            symbols += nest_symbols(part.body) * part.most
    return symbols


def inner_loops(nest: Nest) -> Iterator[Repeated]:
    """Every loop of a nest, outer ones before the loops inside them."""
    for part in nest:
        if isinstance(part, Repeated):
            yield part
            yield from inner_loops(part.body)


def _runs(tokens: NDArray[np.int32]) -> list[tuple[int, int, int]]:
    """Runs to fold, apart from each other and in order: first token, period, turns."""
    size = len(tokens)
    worth = min(MIN_SAVED, max(2, int(MIN_SAVED_SHARE * size)))
    taken = np.zeros(size, bool)
    runs: list[tuple[int, int, int]] = []
    for period in _candidate_periods(tokens):
        same = np.r_[False, tokens[:-period] == tokens[period:], False]
        edges = np.flatnonzero(same[1:] != same[:-1])
        starts, lengths = edges[::2], edges[1::2] - edges[::2]
        saved = lengths // period * period
        for start, length in zip(
            starts[saved >= worth].tolist(), lengths[saved >= worth].tolist(), strict=True
        ):
            # Shorter periods have been here before: what they took is gone.
            low, high = start, start + length + period
            while low < high and taken[low]:
                low += 1
            free = np.flatnonzero(taken[low:high])
            if len(free):
                high = low + int(free[0])
            count = (high - low) // period
            if count >= 2 and (count - 1) * period >= worth:
                runs.append((low, period, count))
                taken[low : low + count * period] = True
    return sorted(runs)


def _candidate_periods(tokens: NDArray[np.int32]) -> list[int]:
    """Distances at which windows of about that length return, shortest first.

    Inside a run, a window of the period's length returns after just one period.
    """
    size = len(tokens)
    if size < 2:
        return []
    periods: set[int] = set()
    code = _dense(tokens)
    length = 1
    while length <= size // 2:
        order = np.argsort(code, kind="stable")
        apart = np.diff(order)[np.diff(code[order]) == 0]
        count = np.bincount(apart, minlength=1)
        distance = np.flatnonzero(count)
        # Only windows as long as the period, to a factor, are sure not to return sooner.
        near = distance[(distance >= length) & (distance < 4 * length)]
        best = near[np.argsort(-count[near], kind="stable")][:MAX_PERIODS]
        periods.update(best.tolist())
        code = _twice_as_long(code, length)
        length *= 2
    return sorted(periods)


def _twice_as_long(code: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Codes of the windows of twice the length; those that run over the end fall away."""
    pairs = code[:-length] * (int(code.max()) + 1) + code[length:]
    doubled: NDArray[np.int64] = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return doubled


def _dense(tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    used = np.zeros(int(tokens.max()) + 1, np.int64)
    used[tokens] = 1
    codes: NDArray[np.int64] = (np.cumsum(used) - 1)[tokens]
    return codes
