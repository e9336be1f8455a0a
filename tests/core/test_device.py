"""Numbering GPUs and putting work in their order, against the plain ways to do it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.device import MAX_COMPARED_GPUS, by_gpu, in_gpu_order, with_gpu
from nsys_deepprof.trace import Capture, TableFacts, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.integers(0, 9)), max_size=12)


def frame_of(rows: list[tuple[int | None, int]]) -> pl.DataFrame:
    schema = {"gpu": pl.Int64, "start_ns": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("row")


@given(ROWS)
def test_gpu_order_is_a_stable_sort(rows: list[tuple[int | None, int]]) -> None:
    frame = frame_of(rows)
    ordered = in_gpu_order(frame)
    assert ordered.equals(frame.sort("gpu", "start_ns", maintain_order=True))
    parts = dict(by_gpu(ordered))
    assert set(parts) == set(frame["gpu"].drop_nulls())
    for gpu, part in parts.items():
        assert part.equals(ordered.filter(pl.col("gpu") == gpu))


def trace_of(gpus: pl.DataFrame) -> Trace:
    load: Callable[[str], tuple[pl.DataFrame, TableFacts]] = lambda _: (  # noqa: E731
        gpus,
        TableFacts(gpus.height, {}, ()),
    )
    return replace(Trace(source="made", capture=Capture(), load=load))


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(1, 40)), st.integers(0, 1)), max_size=30),
    st.integers(1, 2 * MAX_COMPARED_GPUS),
)
def test_gpus_are_numbered_by_process_and_device(
    rows: list[tuple[int | None, int]], known: int
) -> None:
    keys = [(number or None, number % 2) for number in range(known)]
    schema = {"global_pid": pl.Int64, "device_id": pl.Int32}
    gpus = pl.DataFrame(keys, schema=schema, orient="row").with_row_index("gpu")
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    got = with_gpu(frame, trace_of(gpus.cast({"gpu": pl.Int64})))
    number = {key: at for at, key in enumerate(keys)}
    assert got["gpu"].to_list() == [number.get(row) for row in rows]
