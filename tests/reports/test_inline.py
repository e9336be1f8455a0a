"""What a notebook shows: tables, the report in a frame, charts."""

from __future__ import annotations

import inspect
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import polars as pl
import pytest

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.result import Result
from tests.cli.conftest import TRAIN

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = '</td></table><script>alert(1)</script>" onmouseover="alert(2)'


class Seen(HTMLParser):
    """The elements and texts of a fragment."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def train() -> nd.Trace:
    return nd.open_trace(TRAIN)


def test_a_result_is_a_table_with_units_and_exact_values(train: nd.Trace) -> None:
    result = nd.gaps(train)
    seen = Seen(result._repr_html_())
    columns = [attrs["title"] for attrs in seen.attributes("th")]
    assert columns[:4] == ["gpu", "start_ns", "duration_ns", "cause"]
    assert all(attrs["scope"] == "col" for attrs in seen.attributes("th"))
    first = seen.attributes("td")[: len(columns)]
    assert [attrs["title"] for attrs in first[1:3]] == [
        str(result.frame[name][0]) for name in ("start_ns", "duration_ns")
    ]
    start_ms = (result.frame["start_ns"][0] - train.span_ns()[0]) / 1e6
    assert f"{start_ms:,.3f} ms" in seen.texts
    assert f"gaps: 20 of {result.frame.height} rows" in seen.texts


def test_notes_and_warnings_stand_above_the_table() -> None:
    result = Result("gaps", pl.DataFrame({"gpu": [0]}), {"warnings": ["cut short"]}, ("a note",))
    assert Seen(result._repr_html_()).texts[:2] == ["cut short", "a note"]


def test_every_result_says_what_cannot_be_trusted(tmp_path: Path) -> None:
    path = Export().kernel(0, 10).kernel(20, 30).write(tmp_path / "no calls.sqlite")
    trace = nd.open_trace(path)
    for name in ("info", "findings", "gaps", "memcpy", "kernels", "launches", "patterns"):
        texts = Seen(getattr(nd, name)(trace)._repr_html_()).texts
        assert any(text.startswith("No CUDA API calls were traced") for text in texts), name


def test_an_empty_result_says_so() -> None:
    assert Seen(Result("gaps", pl.DataFrame())._repr_html_()).texts == ["No rows."]


def test_names_are_text() -> None:
    frame = pl.DataFrame({"name": [HOSTILE], "calls": [1], HOSTILE: [HOSTILE]})
    seen = Seen(Result("some", frame, {"warnings": [HOSTILE]}, (HOSTILE,))._repr_html_())
    allowed = {"div", "p", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert {tag for tag, _ in seen.tags} == allowed
    assert not any("onmouseover" in attrs for _, attrs in seen.tags)
    assert seen.texts.count(HOSTILE) >= 2


def test_no_value_is_not_zero() -> None:
    frame = pl.DataFrame({"bytes": [None, 0]}, schema={"bytes": pl.Int64})
    seen = Seen(Result("some", frame)._repr_html_())
    assert [attrs["title"] for attrs in seen.attributes("td")] == ["no value", "0"]
    assert [t for t in seen.texts if t in ("—", "0 B")] == ["—", "0 B"]


def test_the_report_is_in_a_frame_that_reaches_nothing(train: nd.Trace) -> None:
    report = nd.report(train)
    (frame,) = Seen(report._repr_html_()).attributes("iframe")
    assert frame["srcdoc"] == report.html
    assert set((frame["sandbox"] or "").split()) == {"allow-scripts", "allow-downloads"}


def test_charts_are_altair_objects(train: nd.Trace) -> None:
    drawn = nd.charts(train)
    assert {"gap causes", "copies"} <= set(drawn)
    assert any(name.startswith("anatomy of gpu0/") for name in drawn)
    assert any(name.startswith("iterations of gpu0/") for name in drawn)
    assert any(name.startswith("queue depth of gpu0/") for name in drawn)
    for chart in drawn.values():
        assert chart.to_dict()["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


def test_charts_of_a_trace_without_gpu_work_are_none(tmp_path: Path) -> None:
    path = Export().nvtx(0, 10, text="alone").write(tmp_path / "host.sqlite")
    assert nd.charts(nd.open_trace(path)) == {}


@pytest.mark.parametrize("name", nd.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(nd, name))
