"""The page of a comparison in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fixtures.builder import Export
from nsys_deepprof import diff, open_trace
from nsys_deepprof.reports.diff_html import render

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"


def loop(path: Path, slow_ns: int) -> Path:
    export = Export()
    at = 0
    for _ in range(12):
        for i, name in enumerate(("gemm<float>", HOSTILE, "softmax", "a" * 3_000)):
            length = 1_000 * (i + 1) + (slow_ns if i == 1 else 0)
            export.kernel(at, at + length, name=name)
            at += length + 100 + (slow_ns // 2 if i == 2 else 0)
    return export.write(path)


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_shows_the_verdict_sorts_and_stays_where_it_is(
    tmp_path: Path, open_page: Any, width: int
) -> None:
    runs = [loop(tmp_path / "a.sqlite", 0), loop(tmp_path / "b.sqlite", 800)]
    page_path = tmp_path / "diff.html"
    page_path.write_text(render(diff(*map(open_trace, runs))), encoding="utf-8")
    page = open_page(page_path, width=width)
    assert page.run("return document.getElementById('verdict').dataset.verdict") == "slower"
    assert page.run("return window.ran") is None
    assert page.run("return document.querySelectorAll('#places-chart rect').length") > 0
    assert page.run("return document.documentElement.scrollWidth") <= width
    rows = "[...document.querySelectorAll('#changes-table tbody tr')]"
    column = f"{rows}.map((row) => row.children[6].dataset.v)"
    listed = [float(value) for value in page.run(f"return {column}")]
    assert listed == sorted(listed, key=abs, reverse=True)
    button = "document.querySelector('#changes-table thead th:nth-child(7) button')"
    page.run(f"{button}.click()")
    once = [float(value) for value in page.run(f"return {column}")]
    page.run(f"{button}.click()")
    twice = [float(value) for value in page.run(f"return {column}")]
    assert sorted(listed) in (once, twice)
    assert once == twice[::-1]
    assert page.messages() == []
    assert page.requests() == []


def test_runs_without_common_work_say_that_nothing_could_be_compared(
    tmp_path: Path, open_page: Any
) -> None:
    runs = [
        Export().kernel(0, 10, name=name).write(tmp_path / f"{name}.sqlite") for name in ("a", "b")
    ]
    page_path = tmp_path / "diff.html"
    page_path.write_text(render(diff(*map(open_trace, runs))), encoding="utf-8")
    page = open_page(page_path)
    text = page.run("return document.body.textContent")
    assert "Could not look." in text
    verdict = "return document.getElementById('verdict').dataset.verdict"
    assert page.run(verdict) == "inconclusive"
