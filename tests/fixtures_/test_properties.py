"""Parts of the generator against naive twins, on random input."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures import instructions as isa
from fixtures.accounts import covered, union
from fixtures.instructions import code, sequence
from fixtures.nest import is_exact
from fixtures.rows import range_pairs
from fixtures.simulate import QUEUE_DEPTH, State, simulate

intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=12,
)
DEVICE_OPS = (isa.KERNEL, isa.COPY, isa.MEMSET, isa.GRAPH, isa.HOST_FUNC)
SYNCS = (isa.SYNC_STREAM, isa.SYNC_DEVICE, isa.SYNC_EVENT)
OPS = (*DEVICE_OPS, *SYNCS, isa.CALL, isa.RECORD, isa.WAIT, isa.OS_CALL, isa.HOST, isa.NOP)
instruction = st.fixed_dictionaries(
    {
        "op": st.sampled_from(OPS),
        "stream": st.integers(0, 2),
        "event": st.integers(0, 2),
        "gap": st.integers(0, 9),
        "call": st.integers(0, 9),
        "latency": st.integers(0, 9),
        "space": st.integers(0, 3),
        "run": st.integers(0, 40),
        "extra": st.integers(0, 5),
        "tail": st.integers(0, 5),
        "flags": st.sampled_from((0, 0, isa.BLOCKS)),
    }
)


def ticks(spans: list[tuple[int, int]]) -> set[int]:
    return {t for start, end in spans for t in range(start, end)}


@given(intervals)
def test_union_covers_the_same_moments(spans: list[tuple[int, int]]) -> None:
    pairs = np.array(spans, np.int64).reshape(-1, 2)
    starts, ends = union(pairs[:, 0], pairs[:, 1])
    assert ticks(list(zip(starts.tolist(), ends.tolist(), strict=True))) == ticks(spans)
    assert (starts[1:] > ends[:-1]).all()


@given(intervals, intervals)
def test_covered_counts_moments(spans: list[tuple[int, int]], windows: list[Any]) -> None:
    pairs = np.array(spans, np.int64).reshape(-1, 2)
    window = np.array(windows, np.int64).reshape(-1, 2)
    spent = covered(*union(pairs[:, 0], pairs[:, 1]), window[:, 0], window[:, 1])
    assert spent.tolist() == [len(ticks(spans) & ticks([w])) for w in windows]


@given(st.text("abc", min_size=1, max_size=14), st.data())
def test_exact_nests_explain_every_square(text: str, data: st.DataObject) -> None:
    """Against the definition: no square but inside a planted loop, in step with its turns, and
    none that could be moved by a symbol past the loop's ends."""
    at = data.draw(st.integers(0, len(text) - 1))
    size = data.draw(st.integers(1, max(1, len(text) // 2)))
    end = at + size * max(0, (len(text) - at) // size)
    spans = {(at, end, size)} if end - at >= 2 * size else set()

    def explained(start: int, period: int) -> bool:
        while start > 0 and text[start - 1] == text[start - 1 + period]:
            start -= 1
        stop = start + period
        while stop < len(text) and text[stop] == text[stop - period]:
            stop += 1
        return any((start, stop) == (a, b) and period % n == 0 for a, b, n in spans)

    squares = [
        (i, n)
        for n in range(1, len(text) // 2 + 1)
        for i in range(len(text) - 2 * n + 1)
        if text[i : i + n] == text[i + n : i + 2 * n]
    ]
    symbols = np.array([ord(c) for c in text])
    assert is_exact(symbols, spans) is all(explained(i, n) for i, n in squares)


@given(st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=4), max_leaves=20))
def test_range_pairs_match_brackets(tree: list[Any]) -> None:
    program: list[int] = []
    expected: list[tuple[int, int]] = []

    def emit(children: list[Any]) -> None:
        begin = len(program)
        program.append(isa.PUSH)
        for child in children:
            program.append(isa.KERNEL)
            emit(child)
        expected.append((begin, len(program)))
        program.append(isa.POP)

    for child in tree:
        emit(child)
    push, pop = range_pairs(sequence(*(code(op=op) for op in program)))
    assert list(zip(push.tolist(), pop.tolist(), strict=True)) == sorted(expected)


@settings(deadline=None)
@given(st.lists(instruction, min_size=1, max_size=25), st.integers(0, 50))
def test_simulation_matches_a_plain_one(program: list[dict[str, int]], clock: int) -> None:
    run = simulate(
        sequence(*(code(**i) for i in program))[np.newaxis], State.start(np.array([clock]))
    )
    host, streams, events = clock, [0] * 3, [0] * 3
    for at, ins in enumerate(program):
        op, stream = ins["op"], ins["stream"]
        begin = host + ins["gap"]
        end = begin + ins["call"]
        device = (0, 0)
        if op in DEVICE_OPS:
            start = max(begin + ins["latency"], streams[stream] + ins["space"])
            device = (start, start + ins["run"] + ins["extra"])
            streams[stream] = device[1]
            if ins["flags"] == isa.BLOCKS:
                end = max(end, device[1] + ins["tail"])
        elif op == isa.RECORD:
            events[ins["event"]] = max(begin, streams[stream])
        elif op == isa.WAIT:
            streams[stream] = max(streams[stream], events[ins["event"]])
        elif op in SYNCS:
            awaited = {
                isa.SYNC_STREAM: streams[stream],
                isa.SYNC_DEVICE: max(streams),
                isa.SYNC_EVENT: events[ins["event"]],
            }[op]
            end = max(end, awaited + ins["tail"])
        host = end
        assert (run.host_start[0, at], run.host_end[0, at]) == (begin, end)
        assert (run.device_start[0, at], run.device_end[0, at]) == device


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=8))
def test_collectives_end_together(delays: list[tuple[int, int]]) -> None:
    ranks = np.array(delays, np.int64)
    program = np.stack([
        sequence(
            code(op=isa.KERNEL, run=first),
            code(op=isa.KERNEL, run=second, flags=isa.COLLECTIVE),
            code(op=isa.KERNEL, run=1),
        )
        for first, second in ranks.tolist()
    ])  # fmt: skip
    run = simulate(program, State.start(np.zeros(len(ranks))))
    last = ranks[:, 0].max()
    assert run.device_start[:, 1].tolist() == ranks[:, 0].tolist()
    assert run.device_end[:, 1].tolist() == (last + ranks[:, 1]).tolist()
    assert run.device_start[:, 2].tolist() == (last + ranks[:, 1]).tolist()


def test_full_queue_blocks_until_a_slot_is_free() -> None:
    count = QUEUE_DEPTH + 40
    program = code(count, op=isa.KERNEL, call=1, latency=1, run=100)[np.newaxis]
    run = simulate(program, State.start(np.zeros(1)))
    assert run.host_end[0, QUEUE_DEPTH - 1] == QUEUE_DEPTH
    for at in range(QUEUE_DEPTH + 12, count):
        assert run.host_end[0, at] == run.device_start[0, at - QUEUE_DEPTH]
