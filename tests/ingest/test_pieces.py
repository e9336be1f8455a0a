"""The parts of reading, each against a slow and obvious twin."""

from __future__ import annotations

import threading
import time
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_deepprof import sorted_parquet
from nsys_deepprof.parallel import in_order
from nsys_deepprof.sorted_parquet import rewrite, write_sorted
from nsys_deepprof.string_ids import lookup, string_ids

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.one_of(st.integers(-3, 12), st.integers(-(1 << 62), 1 << 62))


@given(
    st.lists(st.tuples(NUMBERS, st.text(max_size=3)), max_size=12),
    st.lists(st.none() | NUMBERS, max_size=30),
)
def test_texts_by_id(pairs: list[tuple[int, str]], wanted: list[int | None]) -> None:
    known = dict(pairs)
    ids = pl.Series("id", [i for i, _ in pairs], pl.Int64)
    table = string_ids(ids, pl.Series("text", [text for _, text in pairs], pl.String))
    found = lookup(table, pl.Series("name", wanted, pl.Int64))
    assert found.name == "name"
    assert isinstance(found.dtype, pl.Categorical)
    assert found.to_list() == [
        None if i is None else known.get(i, f"<unknown:{i}>") for i in wanted
    ]


@given(st.lists(st.lists(st.integers(0, 20), max_size=12), max_size=8))
@settings(max_examples=60, deadline=None)
def test_sorted_files(tmp_path_factory: pytest.TempPathFactory, pieces: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("sorted") / "t.parquet"
    rows = [(key, place) for place, key in enumerate(k for piece in pieces for k in sorted(piece))]
    frame = pl.DataFrame(rows, {"key": pl.Int64, "place": pl.Int64}, orient="row")
    frame = frame.with_columns(pl.col("place").cast(pl.String).cast(pl.Categorical).alias("name"))
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    parts = [frame[a:b] for a, b in pairwise(ends) if b > a]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_parquet, "_SLICE_ROWS", 4)
        patch.setattr(sorted_parquet, "_SAMPLE_EVERY", 2)
        written = write_sorted(parts, path, frame.schema, "key")
    assert written == len(rows)
    back = pl.read_parquet(path)
    assert back.schema == frame.schema
    assert back.select("key", "place").rows() == sorted(rows)
    assert back["name"].to_list() == [str(place) for _, place in sorted(rows)]
    assert [p.name for p in path.parent.iterdir()] == ["t.parquet"]


def test_files_without_a_key_keep_their_order(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [3, 1, 2]})
    assert write_sorted([frame, frame], tmp_path / "t.parquet", frame.schema, None) == 6
    assert pl.read_parquet(tmp_path / "t.parquet")["a"].to_list() == [3, 1, 2, 3, 1, 2]


@given(st.lists(st.integers(0, 9), max_size=40))
@settings(max_examples=30, deadline=None)
def test_rewritten_files(tmp_path_factory: pytest.TempPathFactory, values: list[int]) -> None:
    path = tmp_path_factory.mktemp("rewrite") / "t.parquet"
    frame = pl.DataFrame({"a": values}, {"a": pl.Int64})
    write_sorted([frame] if values else [], path, frame.schema, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_parquet, "_SLICE_ROWS", 7)
        left = rewrite(path, lambda f: f.filter(pl.col("a") > 4).with_columns(pl.col("a") * 2))
    want = [2 * a for a in values if a > 4]
    assert left == len(want)
    assert pl.read_parquet(path)["a"].to_list() == want
    assert [p.name for p in path.parent.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order(workers: int) -> None:
    def job(number: int) -> int:
        time.sleep(0.001 * (number % 3))
        return number

    jobs = [partial(job, number) for number in range(20)]
    assert list(in_order(jobs, workers=workers)) == list(range(20))


def test_few_results_wait() -> None:
    started: list[int] = []
    jobs = [partial(started.append, number) for number in range(50)]
    results = in_order(jobs, workers=2)
    next(results)
    time.sleep(0.05)
    assert len(started) <= 4
    results.close()


def test_an_error_stops_the_rest() -> None:
    done: list[int] = []
    gate = threading.Event()

    def job(number: int) -> None:
        if number == 1:
            raise ValueError("second")
        gate.wait(0.01)
        done.append(number)

    with pytest.raises(ValueError, match="second"):
        list(in_order([partial(job, n) for n in range(30)], workers=2))
    assert len(done) < 6
