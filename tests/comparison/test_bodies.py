"""Bodies side by side: wherever they are cut, and with the fewest changes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_deepprof.comparison.bodies import best_rotation, lay_out

WORDS = st.lists(st.integers(0, 4), min_size=1, max_size=24)


def array(word: list[int]) -> np.ndarray:
    return np.array(word, np.int32)


def common_subsequence(a: list[int], b: list[int]) -> int:
    """Length of the longest common subsequence, by the textbook's table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


@settings(deadline=None)
@given(WORDS, WORDS)
def test_columns_hold_every_place_once_and_in_order(a: list[int], b: list[int]) -> None:
    columns = lay_out(array(a), array(b))
    assert columns.a[columns.a >= 0].tolist() == list(range(len(a)))
    assert columns.b[columns.b >= 0].tolist() == list(range(len(b)))
    assert ((columns.a >= 0) | (columns.b >= 0)).all()
    for i, j, equal in zip(columns.a, columns.b, columns.equal, strict=True):
        assert equal == (i >= 0 and j >= 0 and a[i] == b[j])


@settings(deadline=None)
@given(WORDS, WORDS)
def test_as_many_places_are_equal_as_can_be(a: list[int], b: list[int]) -> None:
    assert lay_out(array(a), array(b)).equal.sum() == common_subsequence(a, b)


@settings(deadline=None)
@given(WORDS, st.integers(0, 30))
def test_equal_cycles_are_turned_to_the_same_beginning(word: list[int], by: int) -> None:
    # With one operation that occurs once, there is one right answer.
    body = array([9, *word])
    turned = np.roll(body, -by)
    assert np.array_equal(np.roll(turned, -best_rotation(body, turned)), body)


def test_a_change_does_not_spoil_the_rotation() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        body = rng.integers(0, 30, 119).astype(np.int32)
        changed = np.insert(np.delete(body, 60), 20, 99).astype(np.int32)
        changed[90] = 77
        by = int(rng.integers(119))
        back = np.roll(np.roll(changed, -by), -best_rotation(body, np.roll(changed, -by)))
        columns = lay_out(body, back)
        # Taken out, put in, and another in its place (a draw may bring it back by chance).
        assert columns.similarity >= (119 - 3) / 119


@settings(deadline=None)
@given(st.integers(3, 12), st.data())
def test_work_put_in_beside_the_cut_does_not_move_it(size: int, data: st.DataObject) -> None:
    body = np.arange(size, dtype=np.int32)
    place = data.draw(st.integers(0, size))
    more = np.insert(body, place, [99] * data.draw(st.integers(1, 2))).astype(np.int32)
    by = data.draw(st.integers(0, size))
    turned = np.roll(more, -by)
    back = np.roll(turned, -best_rotation(body, turned))
    assert lay_out(body, back).equal.sum() == size


def test_a_body_is_not_like_half_of_it() -> None:
    body = np.arange(20, dtype=np.int32)
    assert lay_out(body, body[:10]).similarity == 0.5
    assert lay_out(body[:10], body).similarity == 0.5
