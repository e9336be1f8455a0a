"""Every short sequence there is: the miner's windows are longer than some of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from nsys_deepprof.mining.iterations import find_iterations
from nsys_deepprof.mining.sequence import make_sequence


@pytest.mark.parametrize("step_ns", [0, 7])
@pytest.mark.parametrize(("alphabet", "longest"), [(2, 8), (3, 6)])
def test_short_sequences_are_mined(alphabet: int, longest: int, step_ns: int) -> None:
    for size in range(1, longest + 1):
        for word in product(range(alphabet), repeat=size):
            start_ns = np.arange(size, dtype=np.int64) * step_ns
            sequence = make_sequence(
                np.array(word, np.int32), start_ns, start_ns + step_ns, list("abc"[:alphabet])
            )
            found, choice = find_iterations(sequence)
            if found is None:
                assert choice.reason, word
                continue
            assert (found.first < found.stop).all(), word
            assert (found.stop[:-1] <= found.first[1:]).all(), word
            assert found.first[0] >= 0, word
            assert found.stop[-1] <= size, word
