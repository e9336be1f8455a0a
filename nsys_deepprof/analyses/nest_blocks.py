"""The loop nest of a lane as a tree with times, to be shown as nested blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nsys_deepprof.analyses.nests import whole_nest
from nsys_deepprof.mining.loops import Literal, nest_symbols

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from nsys_deepprof.analyses.mined import Mined
    from nsys_deepprof.intervals import Ints
    from nsys_deepprof.mining.loops import Nest

MAX_PARTS = 30
"""Blocks side by side; what follows is one block."""

NAMED_KERNELS = 12


@dataclass(frozen=True)
class Block:
    """A part of a loop nest.

    `times` is None for operations that run once in order (`kernels` names the first of them, with
    how often each follows itself), else the turns of a loop as text, with its body in `parts`.
    `operations` counts one turn. `time_ns` is what the block takes with all its turns, idle time of
    the lane before its operations included; None where its share of the whole cannot be told.
    """

    operations: int
    times: str | None
    time_ns: int | None
    kernels: tuple[tuple[str, int], ...] = ()
    parts: tuple[Block, ...] = ()
    more: int = 0


def nest_blocks(one: Mined, anatomy: pl.DataFrame) -> tuple[Block, ...]:
    """The blocks of a lane from first to last: warm-up, the iteration, what follows.

    `anatomy` holds the lane's rows of that key of `iterations`: the usual time of each position.
    A lane without iterations is one nest from end to end; a very long one has no blocks.
    """
    sequence = one.lane.sequence
    reach = np.maximum.accumulate(sequence.end_ns) if len(sequence) else sequence.end_ns
    before = np.concatenate((sequence.start_ns[:1], reach[:-1]))
    spent_ns = np.maximum(reach - before, 0)
    if one.found is None:
        nest = whole_nest(one)
        if nest is None:
            return ()
        return _blocks(nest, spent_ns, sequence.names)[0]
    found = one.found
    first, stop = int(found.first[0]), int(found.stop[-1])
    usual = (anatomy["median_ns"].fill_null(0) + anatomy["gap_median_ns"].fill_null(0)).to_numpy()
    parts, more = _blocks(found.nest, np.round(usual).astype(np.int64), sequence.names)
    iteration = Block(
        operations=len(found.body),
        times=_times(len(found), len(found)),
        time_ns=int(found.end_ns[-1] - found.start_ns[0]),
        parts=parts,
        more=more,
    )
    around = [
        _literal(sequence.symbols[low:high].tolist(), spent_ns[low:high], sequence.names)
        for low, high in ((0, first), (stop, len(sequence)))
    ]
    blocks = (around[0], iteration, around[1])
    return tuple(block for block in blocks if block.operations)


def structure(blocks: tuple[Block, ...]) -> tuple[object, ...]:
    """What is equal for nests of the same operations, whatever time they take."""
    return tuple((b.operations, b.times, b.kernels, b.more, structure(b.parts)) for b in blocks)


def _blocks(
    nest: Nest, spent_ns: Ints | None, names: Sequence[str]
) -> tuple[tuple[Block, ...], int]:
    """The blocks of a nest over operations that took `spent_ns` each, and how many are left out.

    Where loops of the nest have varying turns, which operation is where is not known.
    """
    if spent_ns is not None and len(nest_symbols(nest)) != len(spent_ns):
        spent_ns = None
    blocks: list[Block] = []
    at = 0
    for part in nest[:MAX_PARTS]:
        if isinstance(part, Literal):
            size = len(part.symbols)
            mine = None if spent_ns is None else spent_ns[at : at + size]
            blocks.append(_literal(list(part.symbols), mine, names))
        else:
            body = len(nest_symbols(part.body))
            size = body * part.most
            mine = None if spent_ns is None else spent_ns[at : at + size]
            # The body's operations over all turns, so that its blocks add up to the loop.
            turns = None if mine is None else mine.reshape(part.most, body).sum(axis=0)
            parts, more = _blocks(part.body, turns, names)
            blocks.append(
                Block(
                    operations=body,
                    times=_times(part.least, part.most),
                    time_ns=None if mine is None else int(mine.sum()),
                    parts=parts,
                    more=more,
                )
            )
        at += size
    return tuple(blocks), max(0, len(nest) - MAX_PARTS)


def _times(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _literal(symbols: list[int], spent_ns: Ints | None, names: Sequence[str]) -> Block:
    runs: list[tuple[str, int]] = []
    for symbol in symbols:
        name = names[symbol]
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        elif len(runs) == NAMED_KERNELS:
            break
        else:
            runs.append((name, 1))
    return Block(
        operations=len(symbols),
        times=None,
        time_ns=None if spent_ns is None else int(spent_ns.sum()),
        kernels=tuple(runs),
    )
