"""What the README says about archives holds: its queries run, its files are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlite_utils

from nsys_deepprof.batch.catalog_columns import TABLES, VIEWS
from nsys_deepprof.batch.plan import BatchInput
from nsys_deepprof.batch.run import run_batch
from tests.batch.archive import loop_export, training_export
from tests.batch.engine import here

README = Path(__file__).resolve().parents[2] / "README.md"


def section() -> str:
    text = README.read_text(encoding="utf-8")
    found = re.search(r"^## Archives of runs\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", section(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    files = [
        loop_export().write(folder / "a.sqlite"),
        training_export(1).write(folder / "b.sqlite"),
    ]
    run_batch([BatchInput(str(f), {}) for f in files], folder / "archive", engine=here)
    return folder / "archive"


def test_queries_run(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = sqlite_utils.Database(archive / "catalog.sqlite")
    rows = list(catalog.query(blocks("sql")[0]))
    assert [row["path"].rsplit("/", 1)[1] for row in rows] == ["a.sqlite", "b.sqlite"]
    monkeypatch.chdir(archive.parent)
    (example,) = blocks("python")
    scope: dict[str, object] = {}
    exec(compile(example, "README", "exec"), scope)


def test_results_scan_in_duckdb(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive.parent)
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    assert duckdb.sql(blocks("sql")[1]).fetchall()


def test_files_tables_and_views_are_those_it_names(archive: Path) -> None:
    named = set(re.findall(r"`([a-z_]+)`", section()))
    assert {"runs", "gpus", "patterns", "findings", "tags", "columns"} <= named & set(TABLES)
    assert len(named & set(VIEWS)) == 6
    results = {file.stem for file in archive.glob("runs/*/results/*.parquet")}
    assert results <= named
    run = next(archive.glob("runs/*"))
    assert {path.name for path in run.iterdir()} == {
        "dataset",
        "results",
        "report.html",
        "status.json",
    }
    assert {path.name for path in archive.iterdir() if not path.name.startswith(".")} == {
        "batch.json",
        "catalog.sqlite",
        "index.html",
        "runs",
        "unlisted",
    }
