"""Captures without GPU work: an answer that says so, with nulls and no zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.contract import TABLE_COMMANDS
from tests.cli.running import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("which", ["no_gpu", "empty"])
@pytest.mark.parametrize("command", TABLE_COMMANDS)
@pytest.mark.parametrize("form", ["table", "json", "csv", "parquet"])
def test_every_command_answers(
    command: str, which: str, form: str, request: pytest.FixtureRequest
) -> None:
    ran = run(command, request.getfixturevalue(which), "-f", form)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out


@pytest.mark.parametrize("which", ["no_gpu", "empty"])
@pytest.mark.parametrize("command", [c for c in TABLE_COMMANDS if c != "findings"])
def test_there_are_no_rows_and_the_reason_is_said(
    command: str, which: str, request: pytest.FixtureRequest
) -> None:
    document = run(command, request.getfixturevalue(which), "-f", "json").json()
    assert document["rows"] == []
    assert document["notes"]


@pytest.mark.parametrize(("which", "calls"), [("no_gpu", 3), ("empty", 0)])
def test_info_tells_that_nothing_ran(
    which: str, calls: int, request: pytest.FixtureRequest
) -> None:
    document = run("info", request.getfixturevalue(which), "-f", "json").json()
    assert document["status"] == "no_gpu_activity"
    assert document["api_calls"] == calls
    assert document["gpus"] == []


def test_a_table_that_is_absent_is_not_an_empty_one(no_gpu: Path, empty: Path) -> None:
    tables = [run("info", path, "-f", "json").json()["tables"] for path in (no_gpu, empty)]
    assert (tables[0]["kernels"], tables[1]["kernels"]) == (None, 0)


@pytest.mark.parametrize("which", ["no_gpu", "empty"])
def test_the_dataset_has_every_table_with_its_schema(
    which: str, request: pytest.FixtureRequest, train: Path, dataset: Path, tmp_path: Path
) -> None:
    import polars as pl

    made = tmp_path / "none.deepprof"
    assert run("convert", request.getfixturevalue(which), "-o", made).code == 0
    files = sorted(p.name for p in made.glob("*.parquet"))
    assert files == sorted(p.name for p in dataset.glob("*.parquet"))
    for name in files:
        assert pl.read_parquet_schema(made / name) == pl.read_parquet_schema(dataset / name)
