"""What the charts draw, as data."""

from __future__ import annotations

import itertools
import statistics

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.analyses.gaps import CAUSES
from nsys_deepprof.analyses.report_data import copy_points, gap_histogram, gap_places

GAPS = st.lists(st.tuples(st.sampled_from(CAUSES), st.integers(1, 10**12)), max_size=60)

COPIES = st.lists(
    st.tuples(
        st.sampled_from(["HtoD", "DtoH"]),
        st.none() | st.lists(st.sampled_from(["pageable", "awaited"]), max_size=2, unique=True),
        st.integers(0, 10**10),
        st.integers(0, 10**9),
    ),
    max_size=80,
)


@given(GAPS)
def test_histogram_holds_every_gap_in_its_bin(gaps: list[tuple[str, int]]) -> None:
    frame = pl.DataFrame(
        gaps, schema={"cause": pl.Enum(CAUSES), "duration_ns": pl.Int64}, orient="row"
    )
    bins = gap_histogram(frame)
    assert bins["gaps"].sum() == len(gaps)
    assert bins["total_ns"].sum() == sum(length for _, length in gaps)
    for row in bins.iter_rows(named=True):
        mine = [n for c, n in gaps if c == row["cause"] and row["from_ns"] <= n < row["to_ns"]]
        assert (row["gaps"], row["total_ns"]) == (len(mine), sum(mine))
    bounds = sorted(set(bins.select("from_ns", "to_ns").rows()))
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(bounds))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(CAUSES[:3]),
            st.sampled_from(["a", "b", None]),
            st.sampled_from(["a", "b"]),
            st.integers(1, 1000),
            st.integers(0, 2),
        ),
        max_size=40,
    ),
    st.integers(1, 8),
)
def test_places_hold_the_gaps_of_one_cause_between_two_operations(
    gaps: list[tuple[str, str | None, str, int, int]], most: int
) -> None:
    columns = ("cause", "prev_op", "next_op", "duration_ns", "gpu")
    schema = dict(
        zip(columns, (pl.Enum(CAUSES), pl.String, pl.String, pl.Int64, pl.Int64), strict=True)
    )
    places = gap_places(pl.DataFrame(gaps, schema=schema, orient="row"), max_places=most)
    expected: dict[tuple[str, str | None, str], list[tuple[int, int]]] = {}
    for cause, before, after, length, gpu in gaps:
        expected.setdefault((cause, before, after), []).append((length, gpu))
    totals = sorted((sum(n for n, _ in found) for found in expected.values()), reverse=True)
    assert places["total_ns"].to_list() == totals[:most]
    for row in places.iter_rows(named=True):
        mine = expected[row["cause"], row["prev_op"], row["next_op"]]
        assert row["gaps"] == len(mine)
        assert row["total_ns"] == sum(n for n, _ in mine)
        assert row["max_ns"] == max(n for n, _ in mine)
        assert row["median_ns"] == statistics.median(n for n, _ in mine)
        assert row["gpus"] == len({gpu for _, gpu in mine})


def copies(rows: list[tuple[str, list[str] | None, int, int]]) -> pl.DataFrame:
    """Rows of kind, blocking, bytes, duration as `memcpy` has them, dearest first."""
    return pl.DataFrame(
        {
            "kind": pl.Series([r[0] for r in rows], dtype=pl.Categorical),
            "blocking": pl.Series([r[1] for r in rows], dtype=pl.List(pl.String)),
            "bytes": pl.Series([r[2] for r in rows], dtype=pl.Int64),
            "duration_ns": pl.Series([r[3] for r in rows], dtype=pl.Int64),
            "throughput_gbps": pl.Series(
                [r[2] / r[3] if r[3] else None for r in rows], dtype=pl.Float64
            ),
            "exposed_ns": pl.Series([r[3] // 2 for r in rows], dtype=pl.Int64),
            "start_ns": pl.Series(range(len(rows)), dtype=pl.Int64),
        }
    )


@given(COPIES, st.integers(2, 30))
def test_points_stand_for_every_copy_and_show_the_dearest(
    rows: list[tuple[str, list[str] | None, int, int]], most: int
) -> None:
    points = copy_points(copies(rows), max_points=most)
    drawable = [(i, r) for i, r in enumerate(rows) if r[2] > 0 and r[3] > 0]
    assert points["copies"].sum() == len(drawable)
    assert points["total_ns"].sum() == sum(r[3] for _, r in drawable)
    alone = points.filter(pl.col("start_ns").is_not_null())["start_ns"].to_list()
    kept = len(drawable) if len(drawable) <= most else most // 2
    assert alone == [i for i, _ in drawable[:kept]]
    blocks = points.group_by("blocking").agg(pl.col("copies").sum()).rows()
    counted: dict[bool | None, int] = {}
    for _, (_, reasons, _, _) in drawable:
        state = None if reasons is None else bool(reasons)
        counted[state] = counted.get(state, 0) + 1
    assert dict(blocks) == counted
