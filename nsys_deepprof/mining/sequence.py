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

    `symbols[i]` is the code of operation `i`, an index into `names`; codes are numbered in the
    order in which they first occur. `start_ns` and `end_ns` are its times. Equal codes mean equal
    text.
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

    Linear in the codes. Rows have to be in order of `start_ns`.
    """
    first = np.full(len(names), len(codes), np.int64)
    # Backwards, so that the earliest of a code's places is written last and stays.
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    # A dictionary is numbered by whatever else its process has read. Numbered by the sequence
    # itself, equal sequences are mined alike, ties and all.
    order = np.argsort(first)[: np.count_nonzero(first < len(codes))]
    number = np.zeros(len(names), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return Sequence(number[codes], start_ns, end_ns, tuple(names[code] for code in order.tolist()))
