"""Kernel names of two runs paired: by full name, then by what a build leaves of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Match = Literal["full", "normalised"]

_HASH = r"(?=[0-9a-z]*[0-9])(?=[0-9a-z]*[a-z])[0-9a-z]{8,}"
# A hash or a specialisation (`0d1d2de`), then counters: `triton_poi_fused_add_1_cemi5yor3uh3`.
_SUFFIX = re.compile(rf"(?:_(?:{_HASH}|(?:\d+d?e?)+))+$")


@dataclass(frozen=True)
class Pair:
    """A kernel name of run A and the one of run B that is the same work; None: there is none."""

    a: str | None
    b: str | None
    match: Match | None


def normalised(name: str) -> str:
    """`name` without a generated hash and trailing counters; all of it where nothing is left.

    Only names without template or call arguments are made by such generators.
    """
    if not re.fullmatch(r"\w+", name):
        return name
    return _SUFFIX.sub("", name) or name


def pair_names(a: Sequence[str], b: Sequence[str]) -> list[Pair]:
    """Every distinct name of both runs, once.

    Names in both are paired. Of the rest, names that are equal when normalised are paired in their
    order: give each run's names in the order in which they first run.
    """
    in_a, in_b = dict.fromkeys(a), dict.fromkeys(b)
    waiting: dict[str, list[str]] = {}
    for name in in_b:
        if name not in in_a:
            waiting.setdefault(normalised(name), []).append(name)
    pairs: list[Pair] = []
    taken: set[str] = set()
    for name in in_a:
        if name in in_b:
            pairs.append(Pair(name, name, "full"))
        elif candidates := waiting.get(normalised(name)):
            other = candidates.pop(0)
            taken.add(other)
            pairs.append(Pair(name, other, "normalised"))
        else:
            pairs.append(Pair(name, None, None))
    pairs += [Pair(None, name, None) for name in in_b if name not in in_a and name not in taken]
    return pairs
