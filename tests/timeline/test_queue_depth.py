"""Queue depth against a count at every nanosecond."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.analyses.queue_depth import queue_depth

LAUNCHES = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.integers(1, 8),
        st.integers(1, 70),
        st.integers(7, 8),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(LAUNCHES)
def test_it_counts_launches_that_have_returned_and_not_begun(
    launches: list[tuple[int, int, int, int, int]],
) -> None:
    built = Export()
    for number, (call, length, start, stream, kernels) in enumerate(launches, start=1):
        api = "cudaLaunchKernel_v7000" if kernels == 1 else "cudaGraphLaunch_v10000"
        built.api(call, call + length, correlation=number, name=api)
        for k in range(kernels):
            built.kernel(start + k, start + k + 1, stream=stream, correlation=number)
    with TemporaryDirectory() as folder:
        changes = queue_depth(nd.open_trace(built.write(Path(folder) / "q.sqlite")))
    for stream in (7, 8):
        mine = changes.filter(changes["stream_id"] == stream)
        depths = dict(mine.select("time_ns", "depth").iter_rows())
        depth = 0
        for time in range(120):
            depth = depths.get(time, depth)
            assert depth == sum(
                call + length <= time < start
                for call, length, start, on, _ in launches
                if on == stream
            )


def test_each_change_is_one_row() -> None:
    built = Export().launch((0, 10), (20, 30)).launch((12, 20), (40, 50)).launch((50, 60), (55, 70))
    with TemporaryDirectory() as folder:
        changes = queue_depth(nd.open_trace(built.write(Path(folder) / "q.sqlite")))
    assert changes.select("time_ns", "depth").rows() == [(10, 1), (40, 0)]
