"""The summary: one screen, true to the findings, and safe to paste."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.analyses.findings import findings
from nsys_deepprof.reports.markdown import EXPLAINED_FINDINGS, SHOWN_FINDINGS, summary
from nsys_deepprof.units import format_ns

DEMO = Path(__file__).parents[2] / "fixtures" / "train.sqlite"

SCREEN = (100, 50)


def test_a_screen_holds_the_summary_of_any_real_trace(each_real_trace: Path) -> None:
    trace = nd.open_trace(each_real_trace)
    found = findings(trace)
    text = summary(found, nd.info(trace), source=trace.source, width=SCREEN[0])
    lines = text.splitlines()
    assert len(lines) <= SCREEN[1]
    assert max(map(len, lines)) <= SCREEN[0]
    assert "*" not in lines[0]
    assert found.frame.height <= SHOWN_FINDINGS or "(--limit 0 shows all)" in text


def test_it_says_what_the_findings_say() -> None:
    trace = nd.open_trace(DEMO)
    found = findings(trace)
    text = summary(found, nd.info(trace), source=trace.source, limit=0)
    for number, row in enumerate(found.frame.iter_rows(named=True), 1):
        assert f"{number}. **{row['severity']}**: " in text
        assert (row["advice"] in text.replace("\\", "")) == (number <= EXPLAINED_FINDINGS)
    assert format_ns(found.extra["recoverable_ns"]) in text.splitlines()[0]


@pytest.mark.parametrize("limit", [1, 2])
def test_limit_bounds_the_findings(limit: int) -> None:
    trace = nd.open_trace(DEMO)
    found = findings(trace)
    assert found.frame.height > limit
    text = summary(found, nd.info(trace), source=trace.source, limit=limit)
    assert f"\n{limit}. " in text
    assert f"\n{limit + 1}. " not in text
    assert f"{limit} of {found.frame.height} findings" in text


def test_no_gpu_activity_is_not_nothing_found(tmp_path: Path) -> None:
    trace = nd.open_trace(Export().api(0, 10, name="cudaMalloc").write(tmp_path / "t.sqlite"))
    text = summary(findings(trace), nd.info(trace), source=trace.source)
    assert "no GPU activity" in text
    assert "nothing found" not in text.lower()


def test_markdown_signs_in_names_are_spelt_out(tmp_path: Path) -> None:
    export = Export().kernel(0, 10).kernel(1_000_000, 1_000_010)
    trace = nd.open_trace(export.write(tmp_path / "<img src=x> *b* [l](u)\u202e.sqlite"))
    first = summary(findings(trace), nd.info(trace), source=trace.source).splitlines()[0]
    assert r"\<img src=x\> \*b\* \[l\](u)⟨U+202E⟩.sqlite" in first


@pytest.mark.parametrize(
    "hostile", ["```<img src=x> [l](u)", "``<img src=x>[l](u)", "a`\n# h`", "&lt;b&gt; ~~x~~ `"]
)
def test_no_name_closes_its_code_or_opens_markup(tmp_path: Path, hostile: str) -> None:
    export = Export().gpu(0, name=hostile)
    for turn in range(8):
        at = turn * 1_000_000
        export.kernel(at, at + 100_000, name=hostile, correlation=turn + 1)
        export.api(at - 500, at - 100, correlation=turn + 1, name="cudaLaunchKernel_v7000")
    trace = nd.open_trace(export.write(tmp_path / f"x{hostile[:3].replace('/', '')}.sqlite"))
    text = summary(findings(trace), nd.info(trace), source=trace.source, limit=0)
    outside = re.sub(r"`[^`]*`", "", text)
    assert "``" not in text
    assert text.count("`") % 2 == 0
    assert not re.search(r"(?<!\\)[<>\[\]~&]", outside), outside
