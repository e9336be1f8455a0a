"""The report in a real browser: it draws, it answers, and it stays where it is."""

from __future__ import annotations

import csv
import io
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.builder import Export
from fixtures.generator import generate
from fixtures.scenarios import long_training
from nsys_deepprof import convert, open_trace
from nsys_deepprof.analyses.gaps import gaps
from nsys_deepprof.analyses.kernels import kernels
from tests.browser.conftest import SECONDS

if TYPE_CHECKING:
    import polars as pl

    from tests.browser.conftest import Page

DEMO = Path(__file__).parents[2] / "fixtures" / "train.sqlite"

MAX_BYTES = 5_000_000

HOSTILE = (
    "</script><script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 2'>",
    '"><svg onload="window.ran = 3">',
    "'); window.ran = 4; //",
    "{{ 7 * 7 }} ${7 * 7} %s {0}",
    "k<int>(float const*, a && b)",
    "\u202egnihton\u2066 ends here",
    "line\u2028separator\u2029 and \ttab",
    "<!--<script>",
    "x" * 10_000,
    "",
)


def check_quiet(page: Page) -> None:
    assert page.messages() == []
    assert page.requests() == []
    assert page.run("return deepprof.errors") == []


def check_charts(page: Page) -> set[str]:
    """Every chart of the page has marks; their names."""
    drawn = page.run(
        "return [...document.querySelectorAll('[data-chart]')].map((place) =>"
        " [place.id, place.querySelectorAll('svg path, svg rect').length])"
    )
    assert all(marks > 0 for _, marks in drawn), drawn
    return {name for name, _ in drawn}


def test_each_real_trace_draws(each_real_trace: Path, report_of: Any, open_page: Any) -> None:
    path = report_of(each_real_trace)
    assert path.stat().st_size < MAX_BYTES
    page = open_page(path)
    drawn = check_charts(page)
    if open_trace(each_real_trace).table("gpus").height:
        assert {"timeline-overview", "timeline-detail"} <= drawn
    else:
        assert "no GPU activity" in page.run("return document.body.textContent")
    check_quiet(page)


def test_a_million_kernels_draw(report_of: Any, open_page: Any, tmp_path: Path) -> None:
    export = tmp_path / "long.sqlite"
    generate(long_training(kernels=1_000_000), export)
    run = convert(export).path
    path = report_of(run)
    assert path.stat().st_size < MAX_BYTES
    page = open_page(path, height=1400)
    check_charts(page)
    check_brush(page)
    check_kernel_table(page, kernels(open_trace(run)).frame)
    check_quiet(page)


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_fits_any_width(report_of: Any, open_page: Any, width: int, dark: bool) -> None:
    page = open_page(report_of(DEMO), width=width, height=800, dark=dark)
    assert page.run("return document.documentElement.scrollWidth") <= width
    outside = page.run(
        "return [...document.querySelectorAll('svg')].filter((svg) =>"
        " svg.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert outside == 0
    check_quiet(page)


def test_the_brush_chooses_what_the_detail_shows(report_of: Any, open_page: Any) -> None:
    check_brush(open_page(report_of(DEMO), height=1400))


def check_brush(page: Page) -> None:
    whole = page.run("return [deepprof.timeline.state.from, deepprof.timeline.state.to]")
    page.show("timeline-overview")
    left, top, width = page.run(
        "const view = deepprof.views['timeline-overview'];"
        "const box = view.container().getBoundingClientRect();"
        "const [x, y] = view.origin();"
        "return [box.left + x, box.top + y + 10, view.signal('width')]"
    )
    page.drag(left + width * 0.25, left + width * 0.5, top)
    page.wait(f"return deepprof.timeline.state.to < {whole[1] * 0.9}")
    span = whole[1] - whole[0]
    shown = page.run("return [deepprof.timeline.state.from, deepprof.timeline.state.to]")
    assert shown == pytest.approx([whole[0] + 0.25 * span, whole[0] + 0.5 * span], abs=0.01 * span)
    detail = page.run("return deepprof.views['timeline-detail'].scale('x').domain()")
    assert detail == pytest.approx(shown)
    rows = page.run("return deepprof.views['timeline-detail'].data('bands').map((row) => row.t)")
    assert min(rows) == pytest.approx(shown[0], abs=0.01 * span)
    assert max(rows) == pytest.approx(shown[1], abs=0.01 * span)
    said = page.run("return document.getElementById('timeline-range').textContent")
    page.run("document.querySelector('[data-move=in]').focus()")
    page.command("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    page.wait(
        f"return document.getElementById('timeline-range').textContent !== {json.dumps(said)}"
    )
    page.run("document.querySelector('[data-move=all]').click()")
    page.wait(f"return deepprof.timeline.state.to >= {whole[1]}")
    assert page.run("return deepprof.timeline.state.from") == pytest.approx(whole[0])
    check_quiet(page)


def test_a_gap_of_the_table_is_shown_in_the_timeline(report_of: Any, open_page: Any) -> None:
    page = open_page(report_of(DEMO))
    page.run("document.querySelector('#gaps-table a[data-go]').click()")
    row = gaps(open_trace(DEMO)).frame.row(0, named=True)
    origin_ns = open_trace(DEMO).span_ns()[0]
    start_ms = (row["start_ns"] - origin_ns) / 1e6
    page.wait(f"return deepprof.timeline.state.from <= {start_ms}")
    assert page.run("return deepprof.timeline.state.to") >= (row["end_ns"] - origin_ns) / 1e6
    marks = page.run("return deepprof.views['timeline-detail'].data('marks').map((m) => m.a)")
    assert any(mark == pytest.approx(start_ms) for mark in marks)


def test_the_timeline_tells_what_is_under_the_pointer(report_of: Any, open_page: Any) -> None:
    page = open_page(report_of(DEMO))
    page.show("timeline-detail")
    left, top, width = page.run(
        "const view = deepprof.views['timeline-detail'];"
        "const box = view.container().getBoundingClientRect();"
        "const [x, y] = view.origin();"
        "return [box.left + x, box.top + y, view.signal('width')]"
    )
    tip = "document.getElementById('timeline-tip')"

    def at(x: float, y: float) -> str:
        page.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return str(page.wait(f"return {tip}.hidden ? '' : {tip}.textContent"))

    lines = at(left + width / 2, top + 30).splitlines()
    assert lines[0].startswith("GPU 0, ")
    shares = [float(line.split()[-2]) for line in lines[1:]]
    assert sum(shares) == pytest.approx(100, abs=1.5)
    page.command("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    page.wait(f"return {tip}.hidden")
    assert at(left + width / 2, top + 66).startswith("iteration ")


def test_the_kernel_table_filters_and_sorts(report_of: Any, open_page: Any) -> None:
    check_kernel_table(open_page(report_of(DEMO)), kernels(open_trace(DEMO)).frame)


def check_kernel_table(page: Page, frame: pl.DataFrame) -> None:
    names = [str(name) for name in frame["name"]]
    word = names[0].split("_")[0].split("<")[0].split("::")[-1][:12].lower()
    page.run(
        "const box = document.querySelector('[data-filter=kernels-table]');"
        "box.value = arguments[0]; box.dispatchEvent(new Event('input'))",
        word,
    )
    shown = page.run(
        "return [...document.querySelectorAll('#kernels-table tbody tr')]"
        ".filter((row) => !row.hidden && row.offsetHeight)"
        ".map((row) => row.querySelector('bdi').title)"
    )
    assert shown == [name for name in names if word in name.lower()]
    assert f"{len(shown)} of {len(names)}" in page.run(
        "return document.getElementById('kernels-table-count').textContent"
    )
    calls = (
        "const header = [...document.querySelectorAll('#kernels-table th')]"
        ".find((th) => th.textContent.trim() === 'calls');"
        "header.querySelector('button').click();"
        "return [header.ariaSort, [...document.querySelectorAll('#kernels-table tbody tr')]"
        ".map((row) => Number(row.cells[header.cellIndex].dataset.v))]"
    )
    assert page.run(calls) == ["descending", sorted(frame["calls"], reverse=True)]
    assert page.run(calls) == ["ascending", sorted(frame["calls"])]


def test_downloads_hold_exact_values(report_of: Any, open_page: Any, tmp_path: Path) -> None:
    # Times of this size are no whole numbers in JavaScript.
    late = 1_772_000_123_456_789_013
    export = (
        Export()
        .kernel(late, late + 10, name='a "quoted", name')
        .kernel(late + 50_011, late + 50_013)
    )
    run = export.write(tmp_path / "late.sqlite")
    page = open_page(report_of(Path(run)))
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.run("for (const b of document.querySelectorAll('[data-download^=gaps]')) b.click()")
    for suffix in ("csv", "json"):
        _await_file(tmp_path, f"*gaps.{suffix}")
    [text] = [path.read_text("utf-8") for path in tmp_path.glob("*gaps.csv")]
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["start_ns"], row["end_ns"]) == (str(late + 10), str(late + 50_011))
    assert row["prev_op"] == 'a "quoted", name'
    [document] = [json.loads(path.read_text("utf-8")) for path in tmp_path.glob("*gaps.json")]
    assert (document[0]["start_ns"], document[0]["duration_ns"]) == (late + 10, 50_001)
    assert document[0]["nvtx"] is None


def _await_file(folder: Path, pattern: str) -> None:
    end = time.monotonic() + SECONDS
    while not list(folder.glob(pattern)):
        assert time.monotonic() < end, f"no {pattern} in {list(folder.iterdir())}"
        time.sleep(0.05)


def test_hostile_names_do_nothing(report_of: Any, open_page: Any, tmp_path: Path) -> None:
    export = Export()
    for index, name in enumerate(HOSTILE):
        start = index * 100_000
        export.api(start, start + 5_000, correlation=index + 1, name="cudaLaunchKernel_v7000")
        export.nvtx(start, start + 90_000, text=name or "empty")
        export.kernel(start + 10_000, start + 30_000, correlation=index + 1, name=name)
        export.copy(start + 40_000, start + 60_000, correlation=0, size=1 << (index + 3))
    folder = tmp_path / "a&b <i>'\""
    folder.mkdir()
    run = Path(export.write(folder / "<b>&'\" run.sqlite"))
    page = open_page(report_of(run))
    assert page.run("return window.ran ?? null") is None
    titles = set(page.run("return [...document.querySelectorAll('bdi')].map((name) => name.title)"))
    for name in HOSTILE[:6]:
        assert name in titles
    assert any("⟨U+202E⟩gnihton" in title for title in titles)
    text = page.run("return document.body.innerText")
    assert "\u202e" not in text
    assert (
        page.run("return document.querySelectorAll('img, main svg[onload], main b i').length") == 0
    )
    assert max(map(len, titles)) <= 1_000
    check_quiet(page)


def test_long_names_everywhere_keep_the_page_small(
    report_of: Any, open_page: Any, tmp_path: Path
) -> None:
    export = Export()
    for index in range(600):
        start = index * 100_000
        name = f"void kernel_{index}<{'x' * 10_000}>"
        export.api(start, start + 5_000, correlation=index + 1, name="cudaLaunchKernel_v7000")
        export.nvtx(start, start + 90_000, text=f"range {index} {'y' * 10_000}")
        export.kernel(start + 10_000, start + 30_000, correlation=index + 1, name=name)
        export.copy(start + 40_000, start + 45_000, correlation=0)
    path = report_of(export.write(tmp_path / "long.sqlite"))
    assert path.stat().st_size < MAX_BYTES
    check_quiet(open_page(path))


def test_the_longest_gaps_and_dearest_copies_are_always_drawn(
    report_of: Any, open_page: Any, tmp_path: Path
) -> None:
    export = Export()
    longest = []
    at = 0
    for index in range(3_000):
        gap = 20_000 + (index * 7_919) % 3_000 * 10
        longest.append((gap, at + 100))
        export.kernel(at, at + 100, name="k")
        export.copy(at + 20, at + 40 + index % 50, correlation=0, stream=8)
        at += 100 + gap
    export.kernel(at, at + 100, name="k")
    page = open_page(report_of(export.write(tmp_path / "many.sqlite")))
    drawn = set(page.run("return deepprof.timeline.marks.map((m) => Math.round(m.a * 1e6))"))
    top = sorted(longest, reverse=True)[:100]
    assert {start for _, start in top} <= drawn
    words = page.run("return document.getElementById('timeline').textContent")
    assert "100 of 3,000 gaps are drawn, the longest" in " ".join(words.split())
    assert "100 of 3,000 copies are drawn, the dearest" in " ".join(words.split())


def test_a_reader_by_ear_or_keyboard_finds_everything(report_of: Any, open_page: Any) -> None:
    page = open_page(report_of(DEMO))
    levels = page.run(
        "return [...document.querySelectorAll('h1, h2, h3, h4')].map((h) => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    unnamed = page.run(
        "return [...document.querySelectorAll('[role=img], button, input, nav, [role=group]')]"
        ".filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length"
        " || e.getAttribute('aria-labelledby'))).map((e) => e.outerHTML.slice(0, 120))"
    )
    assert unnamed == []
    tables = page.run(
        "return [...document.querySelectorAll('table')].map((t) =>"
        " [Boolean(t.caption), [...t.tHead.rows[0].cells].every((h) => h.scope === 'col')])"
    )
    assert all(caption and scoped for caption, scoped in tables)
    links = page.run(
        "return [...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.hash.slice(1))"
        ".filter((id) => !document.getElementById(id))"
    )
    assert links == []
    assert page.run(
        "return new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size"
    ) == (page.run("return document.querySelectorAll('[id]').length"))


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_background(report_of: Any, open_page: Any, dark: bool) -> None:
    page = open_page(report_of(DEMO), dark=dark)
    palette = page.run(
        "const style = getComputedStyle(document.documentElement);"
        "return Object.fromEntries(arguments[0].map((n) => [n, style.getPropertyValue('--' + n)]))",
        ["ink", "muted", "accent", "high", "medium", "low", "panel", "page", "soft"],
    )
    for ink in ("ink", "muted", "accent", "high", "medium", "low"):
        for ground in ("panel", "page", "soft"):
            assert contrast(palette[ink], palette[ground]) >= 4.5, (ink, ground)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours `#rrggbb` by WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour.strip()[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_prints_in_light_colours_with_everything_open(report_of: Any, open_page: Any) -> None:
    page = open_page(report_of(DEMO), dark=True)
    page.command("Emulation.setEmulatedMedia", media="print")
    colour = page.run("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    assert page.run("return getComputedStyle(document.querySelector('.index')).display") == "none"
    pdf = page.command("Page.printToPDF", printBackground=True)["data"]
    assert len(pdf) > 20_000
