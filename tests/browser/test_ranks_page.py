"""The page of ranks in a real browser: a straggler among eight, with hostile names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fixtures.builder import Export
from nsys_deepprof import open_trace, ranks
from nsys_deepprof.reports.ranks_html import render

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>\u202e\u2028"
REDUCE = f"ncclDevKernel_AllReduce{HOSTILE}"
STRAGGLER, TURNS, SIZE = 5, 12, 8


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight ranks whose collectives end together; one needs longer for a kernel each turn."""
    folder = tmp_path_factory.mktemp("ranks") / "<b>&'\"job"
    folder.mkdir()
    traces = []
    for rank in range(SIZE):
        export, at = Export(), 0
        for turn in range(TURNS):
            arrival = at + 31_000
            for name, length in (("gemm<float>", 9_000), (HOSTILE, 8_000), ("a" * 3_000, 7_000)):
                slow_ns = 6_000 if (rank, name) == (STRAGGLER, HOSTILE) else 100 * (turn % 3)
                export.kernel(at, at + length + slow_ns, name=name)
                at += length + slow_ns + 100
            export.kernel(at, arrival + 2_000, name=REDUCE)
            at = arrival + 2_100
        traces.append(open_trace(export.write(folder / f"rank{rank}.sqlite")))
    file = folder.parent / "ranks.html"
    file.write_text(render(ranks(traces)), encoding="utf-8")
    return file


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_the_page_shows_the_straggler_and_names_do_nothing(
    page_file: Path, driver: Any, open_page: Any, width: int, dark: bool
) -> None:
    page = open_page(page_file, width=width, dark=dark)
    verdict = page.run("return document.getElementById('verdict').dataset.straggler")
    assert verdict == str(STRAGGLER)
    assert f"Rank {STRAGGLER} " in page.run("return document.getElementById('verdict').textContent")
    rows = page.run(
        "return [...document.querySelectorAll('#lag-chart svg')].map((svg) => [svg.ariaLabel,"
        " [...svg.querySelectorAll('rect')].map((r) => Number(r.getAttribute('fill-opacity')))])"
    )
    assert len(rows) == SIZE
    assert all(len(marks) == TURNS - 1 for _, marks in rows)
    assert min(rows[STRAGGLER][1]) > 0.8
    assert all(max(marks) < 0.2 for i, (_, marks) in enumerate(rows) if i != STRAGGLER)
    assert f"slowest in {TURNS - 1} iterations" in rows[STRAGGLER][0]
    bars = page.run(
        "return [...document.querySelectorAll('#waits-chart .bar')].map((b) => b.ariaLabel)"
    )
    assert len(bars) == SIZE
    first = page.run("return document.querySelector('#places-table tbody tr').cells[1].textContent")
    assert "window.ran" in first
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.run(wide) == 0
    assert page.run("return window.ran ?? null") is None
    assert page.messages() == []
    assert page.requests() == []


def test_tables_sort_by_exact_values(page_file: Path, open_page: Any) -> None:
    page = open_page(page_file)
    page.run("document.querySelector('#ranks-table thead th:nth-child(2) button').click()")
    ranks_listed = page.run(
        "return [...document.querySelectorAll('#ranks-table tbody tr')]"
        ".map((row) => row.cells[0].textContent)"
    )
    assert ranks_listed[0] == str(STRAGGLER)
