"""A lane as a sequence: one small integer per operation, its times, and the names behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Sequence:
    """The operations of one lane in order of their start.

    `symbols[i]` is the code of operation `i`, an index into `names`; codes are dense (every code
    below `len(names)` occurs). `start_ns` and `end_ns` are its times. Equal codes mean equal text.
    """

    symbols: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def busy_ns(self) -> int:
        """Sum of the durations of all operations."""
        return int((self.end_ns - self.start_ns).sum())


def make_sequence(
    codes: NDArray[np.integer],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    names: list[str] | tuple[str, ...],
) -> Sequence:
    """A `Sequence` from dictionary codes that index `names`, of which some may be unused.

    Linear: the codes are counted, never sorted. Rows have to be in order of `start_ns`.
    """
    used = np.bincount(codes, minlength=len(names)) > 0 if len(codes) else np.zeros(0, bool)
    dense = np.cumsum(used, dtype=np.int32) - np.int32(1)
    symbols = dense[codes] if len(codes) else np.empty(0, np.int32)
    kept = tuple(names[code] for code in np.flatnonzero(used).tolist())
    return Sequence(symbols, start_ns, end_ns, kept)
