"""The archive as a whole: catalogue, works, trends, page; planted changes are told."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import sqlite_utils

from nsys_deepprof.batch import job
from nsys_deepprof.batch.catalog_columns import TABLES, VIEWS
from nsys_deepprof.batch.page import archive_page
from nsys_deepprof.batch.plan import BatchInput
from nsys_deepprof.batch.run import run_batch
from nsys_deepprof.batch.tags import path_tagger, tags_of
from nsys_deepprof.batch.works import group_works, setting_keys
from nsys_deepprof.reports.trend import render
from tests.batch.archive import empty_export, training_export, write_history
from tests.batch.engine import here

if TYPE_CHECKING:
    from pathlib import Path

    from nsys_deepprof.batch.page import ArchivePage
    from nsys_deepprof.batch.trend import Series

DAYS = 24


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A batch over nightly runs on two GPUs with planted changes, and three bad runs."""
    folder = tmp_path_factory.mktemp("history")
    files = write_history(folder, DAYS)
    empty = empty_export().write(folder / "A100" / "bs32" / "empty.sqlite")
    broken = folder / "broken & <b>'s.sqlite"
    broken.write_text("not an export")
    tagger = [path_tagger("{gpu}/bs{bs}/{day}.sqlite")]
    inputs = [BatchInput(str(f), tags_of(str(f), {"team": "x"}, tagger)) for f in files]
    inputs += [BatchInput(str(f), {}) for f in (empty, broken, folder / "gone.sqlite")]
    with pytest.MonkeyPatch.context() as patch:
        # Reports have tests of their own, and take most of the time.
        patch.setattr(job, "_report", lambda trace: "<!doctype html>")
        run_batch(inputs, folder / "out", engine=here)
    return folder / "out"


@pytest.fixture(scope="module")
def page(history: Path) -> ArchivePage:
    return archive_page(history, history / "catalog.sqlite")


def by_label(page: ArchivePage) -> dict[tuple[str | None, str], Series]:
    (work,) = page.works
    return {(series.gpu_name, series.setting): series for series in work.series}


def test_runs_are_one_work_and_a_series_per_gpu_and_batch_size(page: ArchivePage) -> None:
    # The GPU is no setting, as its name tells it; the day returns never; the team is always one.
    assert {key: one.points.height for key, one in by_label(page).items()} == {
        ("NVIDIA A100", "bs=32"): DAYS,
        ("NVIDIA A100", "bs=64"): DAYS // 2,
        ("NVIDIA V100", "bs=32"): DAYS,
        ("NVIDIA V100", "bs=64"): DAYS // 2,
    }
    assert page.works[0].series[0].setting == "bs=32"


def test_planted_changes_are_found_and_told(page: ArchivePage) -> None:
    series = by_label(page)
    a100 = series["NVIDIA A100", "bs=32"]
    assert [change.point.index for change in a100.changes] == [8, 14]
    fused, slow = a100.changes
    assert (fused.loop_changed, slow.loop_changed) == (True, False)
    assert fused.differences is not None
    assert slow.differences is not None
    first = fused.differences.row(0, named=True)
    assert (first["what"], first["b_name"], first["positions"]) == ("added", "fused_bias_gelu", 3)
    assert first["delta_ns"] == pytest.approx(3 * 15_000, rel=0.02)
    first = slow.differences.row(0, named=True)
    assert (first["what"], first["a_name"]) == ("kernel", "ampere_sgemm_128x64_tn")
    assert first["delta_ns"] == pytest.approx(3 * 25_000, rel=0.05)
    assert slow.point.after - slow.point.before == pytest.approx(3 * 25_000, rel=0.1)
    assert [c.point.index for c in series["NVIDIA V100", "bs=32"].changes] == [8]


def test_kernels_of_two_gpus_are_paired(page: ArchivePage) -> None:
    pairing = next(p for p in page.works[0].pairings if p.b.gpu_name == "NVIDIA V100")
    assert pairing.differences is not None
    kernels = pairing.differences.filter(pl.col("what") == "kernel")
    paired = {row["a_name"]: (row["b_name"], row["match"]) for row in kernels.to_dicts()}
    assert paired["ampere_sgemm_128x64_tn"] == ("volta_sgemm_64x64_tn", "signature")
    assert paired["layer_norm"] == ("layer_norm", "name")
    # Gemms have become slower on the A100 alone.
    alike = kernels.filter(~pl.col("a_name").str.contains("gemm"))
    assert (alike["b_ns"] / alike["a_ns"]).to_list() == pytest.approx([1.7] * 5, rel=0.02)
    assert kernels.height == 6


def test_states_of_a_series_add_up(page: ArchivePage) -> None:
    for series in page.works[0].series:
        states = [c for c in series.points.columns if re.fullmatch(r"iteration_\w+_ns", c)]
        parts = [
            c for c in states if c.split("_")[1] in ("compute", "comm", "copy", "memset", "idle")
        ]
        whole = series.points.select(pl.sum_horizontal(parts) - pl.col("iteration_mean_ns"))
        assert len(parts) == 5
        assert whole.to_series().abs().max() < 1
        shares = series.points.select(
            pl.sum_horizontal(f"{s}_share" for s in ("compute", "comm", "copy", "memset", "idle"))
        )
        assert shares.to_series().to_list() == pytest.approx([1] * series.points.height)


def test_the_page_tells_it_and_links_to_reports(history: Path, page: ArchivePage) -> None:
    text = (history / "index.html").read_text(encoding="utf-8")
    assert text == render(page)
    assert "broken &amp; &lt;b&gt;&#39;s.sqlite" in text
    assert "<b>'s" not in text
    links = set(re.findall(r'href="(runs/[^"]+)"', text))
    assert len(links) == page.runs.filter(pl.col("status") != "failed").height
    assert all((history / link).is_file() for link in links)
    assert "fused_bias_gelu" in text
    assert len(text) < 4_000_000


def test_failed_runs_have_null_and_no_zero(history: Path) -> None:
    database = sqlite_utils.Database(history / "catalog.sqlite")
    rows = {row["path"].rsplit("/", 1)[1]: row for row in database["runs"].rows}
    told = {"run_id", "position", "path", "status", "error", "tags", "fingerprint", "size_bytes"}
    failed = rows["gone.sqlite"]
    assert failed["status"] == "failed"
    assert {key for key, value in failed.items() if value is not None} == told - {
        "fingerprint",
        "size_bytes",
    }
    assert {k for k, v in rows["broken & <b>'s.sqlite"].items() if v is not None} == told
    empty = rows["empty.sqlite"]
    assert (empty["status"], empty["error"], empty["utilization"]) == ("empty", None, None)
    assert (empty["idle_ns"], empty["gpus"], empty["kernels"]) == (None, 0, None)


def test_the_catalogue_documents_itself_and_its_views_work(history: Path) -> None:
    database: Any = sqlite_utils.Database(history / "catalog.sqlite")
    assert set(database.table_names()) == set(TABLES)
    documented = {(r["table"], r["column"]) for r in database["columns"].rows}
    for table, columns in TABLES.items():
        assert [c.name for c in database[table].columns] == list(columns)
        assert {(table, column) for column in columns} <= documented
        assert all(about.meaning for about in columns.values())
    assert set(database.view_names()) == set(VIEWS)
    counts = {view: len(list(database[view].rows)) for view in VIEWS}
    assert counts["run_overview"] == database["runs"].count
    assert counts["failed_runs"] == 2
    assert counts["work_by_gpu"] == 4
    assert counts["iteration_time"] == 72
    assert counts["common_patterns"] >= 4
    assert counts["idle_causes"] > 72
    assert counts["same_content"] == 0
    assert sum(row["idle_ns"] for row in database["idle_causes"].rows) == sum(
        row["idle_ns"] or 0 for row in database["runs"].rows
    )


def test_the_catalogue_is_the_results(history: Path) -> None:
    database = sqlite_utils.Database(history / "catalog.sqlite")
    lake = pl.scan_parquet(history / "runs/*/results/gpus.parquet").collect()
    rows = pl.DataFrame(list(database["gpus"].rows), infer_schema_length=None)
    common = [c for c in rows.columns if c in lake.columns]
    left, right = (f.select(common).sort("run_id", "gpu") for f in (lake, rows))
    assert left.cast(dict(right.schema)).equals(right)
    findings = pl.scan_parquet(history / "runs/*/results/findings.parquet").collect()
    assert findings.height == database["findings"].count


def test_the_catalogue_opens_read_only(history: Path) -> None:
    with sqlite3.connect(f"file:{history / 'catalog.sqlite'}?mode=ro&immutable=1", uri=True) as c:
        assert c.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_results_scan_together_whatever_wrote_the_sources(tmp_path: Path) -> None:
    inputs = []
    for number, generation in enumerate(("2020", "2021", "2.9", "3.16", "3.27")):
        export = training_export(number, turns=4)
        again = type(export)(generation)
        again.rows, again._strings = export.rows, export._strings
        inputs.append(BatchInput(str(again.write(tmp_path / f"{generation}.sqlite")), {}))
    inputs.append(BatchInput(str(empty_export().write(tmp_path / "empty.sqlite")), {}))
    result = run_batch(inputs, tmp_path / "out", engine=here)
    assert [run.status.status for run in result.runs] == ["ok"] * 5 + ["empty"]
    names = {file.name for file in (tmp_path / "out").glob("runs/*/results/*.parquet")}
    assert len(names) == 8
    for name in names:
        files = sorted((tmp_path / "out").glob(f"runs/*/results/{name}"))
        assert len({str(pl.read_parquet_schema(file)) for file in files}) == 1, name
        assert pl.scan_parquet(files).collect().columns[0] == "run_id"


def test_works_are_told_apart_by_their_kernels() -> None:
    works = group_works(
        {
            "p1": ["ampere_sgemm_128x64_tn", "softmax", "softmax", "adam"],
            "p2": ["volta_sgemm_64x64_tn", "softmax", "softmax", "sgd"],
            "p3": ["fft", "fft", "transpose"],
            "p4": ["fft", "fft", "transpose", "scale"],
        }
    )
    assert works == {"p1": "p1", "p2": "p1", "p3": "p3", "p4": "p3"}


def test_a_work_tag_joins_what_kernels_do_not(tmp_path: Path) -> None:
    from nsys_deepprof.batch.trend import find_works
    from tests.batch.archive import loop_export

    files = [loop_export().write(tmp_path / "a.sqlite")]
    files.append(training_export(1).write(tmp_path / "b.sqlite"))
    for tags, count in (({}, 2), ({"work": "mine"}, 1)):
        out = tmp_path / f"out{count}"
        run_batch([BatchInput(str(f), tags) for f in files], out, engine=here)
        assert len(archive_page(out, out / "catalog.sqlite").works) == count
    assert archive_page(out, out / "catalog.sqlite").works[0].name == "mine"
    assert find_works(*(pl.DataFrame(schema=s) for s in _schemas()), _no_anatomy) == []


def _schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    types = {int: pl.Int64, float: pl.Float64, str: pl.String}
    runs, gpus = (
        {column: types[about.type] for column, about in TABLES[name].items()}
        for name in ("runs", "gpus")
    )
    return runs, gpus


def _no_anatomy(run_id: str, lane: str) -> pl.DataFrame:
    raise AssertionError("no run has iterations")


def test_settings_are_tags_that_differ_on_one_gpu_and_return() -> None:
    tags = [
        {"gpu": g, "bs": b, "day": str(n), "team": "x", "work": "w"}
        for n, (g, b) in enumerate([("A", "1"), ("A", "2"), ("B", "1"), ("B", "2")] * 2)
    ]
    assert setting_keys(tags, [tag["gpu"] for tag in tags]) == ["bs"]
    assert setting_keys(tags, ["same"] * 8) == ["gpu", "bs"]
    commits = [{"commit": str(n // 2)} for n in range(40)]
    assert setting_keys(commits, ["same"] * 40) == []
    assert setting_keys([], []) == []
