"""What runs did, told apart: the same work on another GPU, with another build or setting."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nsys_deepprof.batch.loops import SAME_WORK, likeness, work_signature

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WORK_TAG = "work"
"""Runs with a tag of this name are of the work that it says."""

MAX_VALUES = 8


def group_works(patterns: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Each pattern's work, named by the first pattern of it.

    `patterns` has the kernel names of one turn by pattern id, the most important first. A pattern
    is of the work that it is most like, where it is like enough (`loops.SAME_WORK`).
    """
    works: dict[str, Counter[str]] = {}
    found: dict[str, str] = {}
    for pattern, names in patterns.items():
        mine = Counter(work_signature(name) for name in names)
        best = max(works, key=lambda work: likeness(works[work], mine), default=None)
        if best is None or likeness(works[best], mine) < SAME_WORK:
            best = pattern
            works[best] = mine
        found[pattern] = best
    return found


def setting_keys(tags: Sequence[Mapping[str, str]], gpu_names: Sequence[str | None]) -> list[str]:
    """The tags of runs that tell settings apart: with few values that return on one kind of GPU.

    A tag that follows from the GPU's name says nothing new. One with a value for every run or many
    (a date, a commit) says when, not how: it would leave nothing to compare. So a setting has at
    most `MAX_VALUES` values, and all settings together leave two runs a series on average.
    """
    keys = dict.fromkeys(key for tag in tags for key in tag if key != WORK_TAG)
    values = {key: [tag.get(key) for tag in tags] for key in keys}
    chosen: list[str] = []
    series: list[tuple[str | None, ...]] = [(name,) for name in gpu_names]
    for key in sorted(keys, key=lambda key: len(set(values[key]))):
        finer = [(*one, value) for one, value in zip(series, values[key], strict=True)]
        tells_more = len(set(finer)) > len(set(series))
        if tells_more and len(set(values[key])) <= MAX_VALUES and len(set(finer)) <= len(tags) / 2:
            chosen.append(key)
            series = finer
    return [key for key in keys if key in chosen]


def setting_text(tag: Mapping[str, str], keys: Iterable[str]) -> str:
    """The settings of a run as `key=value` words; empty where nothing tells settings apart."""
    return " ".join(f"{key}={tag[key]}" for key in keys if key in tag)
