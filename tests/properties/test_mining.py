"""The miner's parts against their naive twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_deepprof.mining import align, cycles, identity, jit, levels, loops, repeats, suffix_tree
from nsys_deepprof.mining.sequence import make_sequence
from nsys_deepprof.mining.turns import Turns
from tests.mining import naive

RELAXED = settings(deadline=None)


def texts(*, least: int = 0, most: int = 40) -> st.SearchStrategy[list[int]]:
    """Sequences over alphabets of 1 to 4 symbols: random ones and powers."""
    letters = st.integers(1, 4).flatmap(
        lambda size: st.lists(st.integers(0, size - 1), min_size=least, max_size=most)
    )
    words = st.lists(st.integers(0, 3), min_size=1, max_size=8)
    powers = st.builds(
        lambda word, times, tail: (word * times + tail)[:most], words, st.integers(2, 9), words
    )
    return st.one_of(letters, powers).filter(lambda text: len(text) >= least)


def dense(text: list[int]) -> np.ndarray:
    codes = {symbol: i for i, symbol in enumerate(sorted(set(text)))}
    return np.array([codes[symbol] for symbol in text], np.int32)


def sequence_of(text: list[int], names: list[str] | None = None):
    start = np.arange(len(text), dtype=np.int64) * 10
    names = names or [f"kernel {i}" for i in range(max(text, default=-1) + 1)]
    return make_sequence(np.array(text, np.int32), start, start + 7, names)


@pytest.fixture(params=["plain", "compiled"], autouse=True, scope="module")
def way(request):
    """Every test runs the loops both as plain Python and compiled."""
    before = jit.PLAIN_LIMIT
    jit.PLAIN_LIMIT = 1 << 60 if request.param == "plain" else 0
    yield request.param
    jit.PLAIN_LIMIT = before


@RELAXED
@given(texts())
def test_suffix_array_and_lcp(text: list[int]) -> None:
    array = suffix_tree.suffix_array(dense(text))
    assert array.suffixes.tolist() == naive.suffix_array(dense(text).tolist())
    assert array.lcp.tolist() == naive.lcp_array(dense(text).tolist())


@RELAXED
@given(texts(), st.integers(1, 6))
def test_windows_are_equal_exactly_where_the_symbols_are(text: list[int], length: int) -> None:
    codes = suffix_tree.window_codes(suffix_tree.suffix_array(dense(text)), length).tolist()
    for i in range(len(text)):
        for j in range(i):
            whole = max(i, j) + length <= len(text)
            same = whole and text[i : i + length] == text[j : j + length]
            assert (codes[i] == codes[j]) == same


@RELAXED
@given(texts())
def test_nodes_are_the_branching_words(text: list[int]) -> None:
    array = suffix_tree.suffix_array(dense(text))
    nodes = suffix_tree.tree_nodes(array)
    symbols = dense(text).tolist()
    found = {}
    for v in range(len(nodes.depth)):
        start = int(array.suffixes[nodes.first[v]])
        word = tuple(symbols[start : start + int(nodes.depth[v])])
        assert word not in found
        found[word] = v
        places = sorted(array.suffixes[nodes.first[v] : nodes.last[v] + 1].tolist())
        assert places == naive.all_places(symbols, word)
    assert set(found) == naive.branching_words(symbols)
    for word, v in found.items():
        # The parent is the longest branching word that begins this one.
        shorter = [w for w in found if len(w) < len(word) and word[: len(w)] == w]
        expected = found[max(shorter, key=len)] if shorter else -1
        assert nodes.parent[v] == expected


@RELAXED
@given(texts())
def test_maximal_repeats(text: list[int]) -> None:
    symbols = dense(text)
    array = suffix_tree.suffix_array(symbols)
    nodes = suffix_tree.tree_nodes(array)
    kept = np.flatnonzero(repeats.maximal_nodes(array, symbols, nodes))
    starts = array.suffixes[nodes.first[kept]].tolist()
    found = {
        tuple(symbols[s : s + d].tolist())
        for s, d in zip(starts, nodes.depth[kept].tolist(), strict=True)
    }
    assert found == naive.maximal_repeats(symbols.tolist())


@RELAXED
@given(texts(), st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_occurrences_do_not_overlap(text: list[int], word: list[int]) -> None:
    found = repeats.occurrences(np.array(text, np.int32), np.array(word, np.int32))
    assert found.tolist() == naive.apart(text, tuple(word))


@RELAXED
@given(texts(least=1))
def test_rotation_and_period(text: list[int]) -> None:
    symbols = np.array(text, np.int32)
    start = identity.least_rotation(symbols)
    assert np.roll(symbols, -start).tolist() == naive.least_rotation(text)
    assert identity.primitive_period(symbols) == len(naive.primitive_root(text))
    assert identity.smallest_period(symbols) == naive.smallest_period(text)


@RELAXED
@given(
    texts(least=1), texts(least=1), st.integers(0, 40), st.integers(1, 3), st.permutations("abcd")
)
def test_a_pattern_is_its_cycle_of_names(
    one: list[int], other: list[int], turn: int, power: int, names: list[str]
) -> None:
    def cycle(text: list[int]) -> list[str]:
        return naive.least_rotation(naive.primitive_root(text))

    one_id = identity.pattern_id(np.array(one, np.int32), names)
    assert (one_id == identity.pattern_id(np.array(other, np.int32), names)) == (
        cycle(one) == cycle(other)
    )
    # Rotated, repeated, and with other codes for the same names, it is the same pattern.
    turn %= len(one)
    rotated = (one[turn:] + one[:turn]) * power
    recoded = [3 - symbol for symbol in rotated]
    assert identity.pattern_id(np.array(recoded, np.int32), names[::-1]) == one_id


@RELAXED
@given(texts())
def test_a_folded_sequence_unfolds_to_itself(text: list[int]) -> None:
    nest = loops.fold(np.array(text, np.int32))
    if all(loop.least == loop.most for loop in loops.inner_loops(nest)):
        assert loops.nest_symbols(nest) == text
    least, most = lengths(nest)
    assert least <= len(text) <= most
    for loop in loops.inner_loops(nest):
        assert loop.least >= 2
        body = loops.nest_symbols(loop.body)
        assert naive.primitive_root(body) == body


def lengths(nest: loops.Nest) -> tuple[int, int]:
    least = most = 0
    for part in nest:
        if isinstance(part, loops.Literal):
            least, most = least + len(part.symbols), most + len(part.symbols)
        else:
            inner = lengths(part.body)
            least, most = least + part.least * inner[0], most + part.most * inner[1]
    return least, most


@RELAXED
@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=8),
    st.integers(4, 8),
    st.lists(st.integers(4, 9), max_size=6, unique=True),
    st.lists(st.integers(10, 19), max_size=6, unique=True),
)
def test_a_lone_run_is_folded_where_it_begins(
    word: list[int], times: int, before: list[int], after: list[int]
) -> None:
    word = naive.primitive_root(word)
    text = before + word * times + after
    (run,) = [r for r in naive.runs(text) if r.period == len(word)]
    saved = (times - 1) * len(word)
    nest = loops.fold(np.array(text, np.int32))
    outer = [part for part in nest if isinstance(part, loops.Repeated)]
    if saved < loops.MIN_SAVED or len(word) < 3:
        return
    inner = [r for r in naive.runs(word * times) if r.period < len(word)]
    if inner:
        # Runs inside the body are folded first, and may take its ends.
        return
    assert [(p.least, p.most) for p in outer] == [(times, times)]
    assert loops.nest_symbols(outer[0].body) == word
    assert loops.nest_symbols(nest[: nest.index(outer[0])]) == text[: run.start]


@RELAXED
@given(texts(least=1, most=25), st.lists(texts(least=1, most=25), min_size=1, max_size=4))
def test_alignment_makes_the_fewest_edits(body: list[int], contents: list[list[int]]) -> None:
    symbols = np.array([s for content in contents for s in content], np.int32)
    stop = np.cumsum([len(content) for content in contents])
    first = np.r_[0, stop[:-1]]
    turns = Turns(first, stop, np.arange(len(contents)), 0, "start")
    position = align.align(symbols, turns, np.array(body, np.int32))
    for low, high, content in zip(first.tolist(), stop.tolist(), contents, strict=True):
        mine = position[low:high]
        matched = mine[mine >= 0]
        assert (np.diff(matched) > 0).all()
        assert all(content[i] == body[p] for i, p in enumerate(mine.tolist()) if p >= 0)
        edits = len(content) + len(body) - 2 * len(matched)
        assert edits == naive.edit_distance(content, body)


@RELAXED
@given(texts(least=2))
def test_levels_count_what_returns(text: list[int]) -> None:
    symbols = dense(text)
    windows = levels.find_windows(suffix_tree.suffix_array(symbols), symbols)
    for level in levels.find_levels(windows):
        row = windows.codes[level.row]
        place = int(np.flatnonzero(row == level.code)[0])
        word = tuple(symbols[place : place + levels.WINDOW_LENGTHS[level.row]].tolist())
        assert level.count == len(naive.all_places(symbols.tolist(), word)) >= 2


@RELAXED
@given(st.lists(st.integers(0, 5), min_size=2, max_size=6, unique=True), st.integers(3, 7))
def test_a_chain_visits_a_clean_cycle_in_order(word: list[int], times: int) -> None:
    symbols = dense(word * times)
    windows = levels.find_windows(suffix_tree.suffix_array(symbols), symbols)
    level = next(lv for lv in levels.find_levels(windows) if lv.count == times)
    cycle = cycles.follow(windows, level)
    assert cycle is not None
    assert cycle.period == len(word)
    # A place in the unrolled template is a place in the sequence, but for where counting begins.
    assert len(set((cycle.phase - cycle.position).tolist())) == 1
