"""The loop nest of a lane as one line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsys_deepprof.mining.loops import Nest, fold, nest_text

if TYPE_CHECKING:
    from nsys_deepprof.analyses.mined import Mined

# A lane without iterations is folded whole up to this many operations.
MAX_FOLDED = 200_000
MAX_PARTS = 40


def whole_nest(one: Mined) -> Nest | None:
    """The loop nest of a whole lane that has no iterations; None for a very long lane."""
    symbols = one.lane.sequence.symbols
    return fold(symbols) if len(symbols) <= MAX_FOLDED else None


def lane_nest(one: Mined) -> str:
    """`warm-up 17, (5, (9)x12, 30)x60, 4`: operations before, the iteration, and after it.

    A lane without iterations is one nest from end to end.
    """
    found = one.found
    size = len(one.lane.sequence)
    if found is None:
        nest = whole_nest(one)
        if nest is None:
            return f"{size}"
        if len(nest) > MAX_PARTS:
            return f"{nest_text(nest[:MAX_PARTS])}, ... ({len(nest) - MAX_PARTS} more parts)"
        return nest_text(nest)
    parts = [f"({nest_text(found.nest)})x{len(found)}"]
    before, after = int(found.first[0]), size - int(found.stop[-1])
    if before:
        parts.insert(0, f"warm-up {before}")
    if after:
        parts.append(str(after))
    return ", ".join(parts)
