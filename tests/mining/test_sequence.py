"""A lane's symbols: the same for the same kernels, whatever the dictionary behind the names."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.mining.sequence import make_sequence

NAMES = [f"kernel {i}" for i in range(8)]


@given(st.lists(st.integers(0, 7), max_size=40), st.permutations(range(8)))
def test_symbols_are_numbered_in_the_order_in_which_names_first_occur(
    text: list[int], place: list[int]
) -> None:
    dictionary = [""] * len(place)
    for code, at in enumerate(place):
        dictionary[at] = NAMES[code]
    times = np.arange(len(text), dtype=np.int64)
    codes = np.array([place[code] for code in text], np.uint32)

    sequence = make_sequence(codes, times, times + 1, dictionary)

    expected: dict[int, int] = {}
    for code in text:
        expected.setdefault(code, len(expected))
    assert sequence.symbols.tolist() == [expected[code] for code in text]
    assert sequence.symbols.dtype == np.int32
    assert sequence.names == tuple(NAMES[code] for code in expected)
