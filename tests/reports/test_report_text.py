"""What a report says in words: three answers that never look alike, and what it was narrowed to."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import polars as pl

import nsys_deepprof as nd
from fixtures.builder import MEMCPY, Export
from nsys_deepprof.analyses.report_data import report_data
from nsys_deepprof.definitions import DEFINITIONS
from nsys_deepprof.reports.html import render

DEMO = Path(__file__).parents[2] / "fixtures" / "train.sqlite"


def sections(trace: nd.Trace) -> dict[str, str]:
    """The text of each section of a trace's report, by its id."""
    page = render(report_data(trace))
    parts = re.findall(r'<section id="(\w+)">(.*?)</section>', page, re.DOTALL)
    return {name: " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split()) for name, text in parts}


def test_nothing_there_is_not_could_not_look(tmp_path: Path) -> None:
    export = Export().kernel(0, 1000, name="a").kernel(1000, 2000, name="b")
    said = sections(nd.open_trace(export.write(tmp_path / "t.sqlite")))
    assert "Looked, and found nothing." in said["gaps"]
    assert "Could not look. The export has no table of memory copies." in said["copies"]
    assert "Could not look. No CUDA API calls were traced" in said["launches"]
    assert "Looked, and found nothing. No communication kernel" in said["communication"]
    assert "Looked, and found nothing. No iteration" in said["iterations"]


def test_an_empty_table_was_looked_into(tmp_path: Path) -> None:
    export = Export(all_tables=True).kernel(0, 1000, name="a")
    assert MEMCPY in export.tables
    said = sections(nd.open_trace(export.write(tmp_path / "t.sqlite")))
    assert "Looked, and found nothing. No copy was made" in said["copies"]


def test_no_gpu_activity_is_no_data(tmp_path: Path) -> None:
    export = Export().api(0, 10, name="cudaMalloc")
    said = sections(nd.open_trace(export.write(tmp_path / "t.sqlite")))
    for name in ("summary", "findings", "timeline", "gaps", "copies", "kernels", "launches"):
        assert "No data." in said[name]
        assert "0 %" not in said[name]
        assert "found nothing" not in said[name]


def test_figures_are_those_of_the_analyses() -> None:
    trace = nd.open_trace(DEMO)
    said = sections(trace)
    gaps = nd.gaps(trace).extra
    assert said["gaps"].startswith(f"Idle gaps {gaps['all_count']:,} gaps, ")
    found = nd.iterations(trace)
    assert f"iteration × {found.frame.height}" in said["iterations"]
    assert f"{int(found.frame['outlier'].sum())} slow" in said["iterations"]
    # Names in a title are elements of their own: spaces around them do not count.
    words = said["findings"].replace(" ", "")
    for title in nd.findings(trace).frame["title"]:
        assert title.replace("`", "").replace(" ", "") in words


def test_a_narrowed_report_says_to_what() -> None:
    trace = nd.open_trace(DEMO)
    assert "Only a part of the trace" not in sections(trace)["summary"]
    part = sections(nd.narrow(trace, from_ms=20, to_ms=120))["summary"]
    assert "Only a part of the trace is analysed GPU 0: 1 window, 100 ms together" in part
    assert "between 20.000 and 120.000 ms from the start of the trace" in part


def test_every_definition_is_in_the_report() -> None:
    said = sections(nd.open_trace(DEMO))["definitions"]
    for term, meaning in DEFINITIONS:
        assert f"{term} {meaning}" in said


def test_the_same_trace_makes_the_same_page() -> None:
    first, second = (render(report_data(nd.open_trace(DEMO))) for _ in range(2))
    assert first == second


def test_many_gpus_are_rows_and_equal_nests_are_told_once(tmp_path: Path) -> None:
    export = Export()
    for gpu in range(6):
        for turn in range(20):
            start = turn * 10_000 + gpu
            for number, name in enumerate(("a", "b", "c")):
                at = start + number * 2_000
                export.kernel(at, at + 1_000 + 10 * gpu, gpu, 7, 0, 1000 + gpu, name=name)
    said = sections(nd.open_trace(export.write(tmp_path / "t.sqlite")))
    assert "Time of each GPU by state" in said["summary"]
    for gpu in range(6):
        assert f"{gpu} pid {1000 + gpu} " in said["summary"]
    assert said["iterations"].count("Loop nest of") == 1
    assert "and 5 lanes alike (gpu1/pid1001/ctx1/stream7, " in said["iterations"]
    assert said["iterations"].count("20 iterations, median 10.0 µs") == 6


def test_each_gpu_has_its_median_iteration_and_findings_lead_there(tmp_path: Path) -> None:
    """Two GPUs run 12 and 15 iterations of other kernels; each waits for the host once a turn."""
    built = Export()
    for device, (count, names) in enumerate([(12, "abcd"), (15, "efgh")]):
        at = 1_000
        for turn in range(count):
            for name in names:
                at += 3_000_000 if name in "cg" else 2_000
                call, run = (at - 1_500, at - 500), (at, at + 1_000_000 + 1_000 * turn)
                built.launch(call, run, name, device=device, pid=1_000 + device)
                at = run[1]
    trace = nd.open_trace(built.write(tmp_path / "x.sqlite"))
    data = report_data(trace)
    every = nd.iterations(trace)
    assert [one.bars["lane"][0].split("/")[0] for one in data.anatomies] == ["gpu0", "gpu1"]
    for one, kernels in zip(data.anatomies, ("abcd", "efgh"), strict=True):
        rows = every.frame.filter(pl.col("lane") == one.lane).sort("duration_ns")
        middle = rows.row((rows.height - 1) // 2, named=True)
        assert (one.index, one.start_ns, one.end_ns) == (
            middle["index"],
            middle["start_ns"],
            middle["end_ns"],
        )
        assert sorted(one.bars["name"]) == sorted(kernels)
        assert one.positions.height == 4
    page = render(data)
    for number in range(2):
        assert f'id="anatomy-{number}-caption"' in page
    leads = re.findall(r'operation 3 of the <a href="#anatomy-(\d)-caption">', page)
    assert sorted(set(leads)) == ["0", "1"]
