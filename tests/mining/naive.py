"""Slow and obvious twins of the miner's parts, written from their definitions."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


def suffix_array(text: list[int]) -> list[int]:
    return sorted(range(len(text)), key=lambda i: text[i:])


def common_prefix(a: list[int], b: list[int]) -> int:
    size = 0
    while size < min(len(a), len(b)) and a[size] == b[size]:
        size += 1
    return size


def lcp_array(text: list[int]) -> list[int]:
    suffixes = suffix_array(text)
    common = [common_prefix(text[i:], text[j:]) for i, j in pairwise(suffixes)]
    return [0, *common][: len(text)]


def all_places(text: list[int], word: tuple[int, ...]) -> list[int]:
    return [i for i in range(len(text)) if tuple(text[i : i + len(word)]) == word]


def branching_words(text: list[int]) -> set[tuple[int, ...]]:
    """Words that go on in at least two ways, of which the end of the text may be one."""
    found = set()
    for word in words(text):
        nexts = {tuple(text[i + len(word) : i + len(word) + 1]) for i in all_places(text, word)}
        if len(nexts) > 1:
            found.add(word)
    return found


def maximal_repeats(text: list[int]) -> set[tuple[int, ...]]:
    """Words that occur twice and lose occurrences when extended to either side."""
    found = set()
    for word in words(text):
        places = all_places(text, word)
        before = {tuple(text[max(0, i - 1) : i]) if i else ("start",) for i in places}
        after = {tuple(text[i + len(word) : i + len(word) + 1]) for i in places}
        if len(places) > 1 and len(before) > 1 and len(after) > 1:
            found.add(word)
    return found


def words(text: list[int]) -> set[tuple[int, ...]]:
    size = len(text)
    return {tuple(text[i:j]) for i in range(size) for j in range(i + 1, size + 1)}


def apart(text: list[int], word: tuple[int, ...]) -> list[int]:
    """Occurrences from the left, each after the end of the one before."""
    places: list[int] = []
    for place in all_places(text, word):
        if not places or place >= places[-1] + len(word):
            places.append(place)
    return places


def least_rotation(text: list[int]) -> list[int]:
    return min((text[i:] + text[:i] for i in range(len(text))), default=[])


def primitive_root(text: list[int]) -> list[int]:
    for size in range(1, len(text) + 1):
        if len(text) % size == 0 and text[:size] * (len(text) // size) == text:
            return text[:size]
    return []


def smallest_period(text: list[int]) -> int:
    for period in range(1, len(text) + 1):
        if all(text[i] == text[i + period] for i in range(len(text) - period)):
            return period
    return 0


class Run(NamedTuple):
    start: int
    stop: int
    period: int


def runs(text: list[int]) -> set[Run]:
    """Maximal stretches that repeat themselves at least twice, by their least period."""
    found = set()
    for period in range(1, len(text) // 2 + 1):
        start = 0
        while start + 2 * period <= len(text):
            stop = start + period
            while stop < len(text) and text[stop] == text[stop - period]:
                stop += 1
            if stop - start >= 2 * period and smallest_period(text[start:stop]) == period:
                found.add(Run(start, stop, period))
            start = max(start + 1, stop - period + 1)
    return found


def edit_distance(a: list[int], b: list[int]) -> int:
    """Fewest insertions and deletions."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            best = diagonal if x == y else 1 + min(row[j], row[j - 1])
            diagonal, row[j] = row[j], best
    return row[-1]
