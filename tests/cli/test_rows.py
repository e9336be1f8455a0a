"""Every table command in every format: keys, limits, files, windows."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.cli.contract import ROW_KEYS, TABLE_COMMANDS, TOP_KEYS
from tests.cli.running import rows, run

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = pytest.mark.parametrize("command", TABLE_COMMANDS)


@COMMANDS
def test_json_is_one_object_with_the_keys_of_the_contract(command: str, train: Path) -> None:
    document = run(command, train, "--format", "json").json()
    assert document["schema"] == "nsys-deepprof/1"
    assert document["command"] == command
    assert document["source"] == str(train)
    assert set(TOP_KEYS.get(command, ())) <= set(document)
    # The training run is on one GPU: nothing communicates.
    assert bool(document["rows"]) == (command != "communication")
    for row in document["rows"]:
        assert set(ROW_KEYS[command]) <= set(row)


@COMMANDS
def test_parquet_holds_the_rows_of_json(command: str, train: Path) -> None:
    frame = pl.read_parquet(io.BytesIO(run(command, train, "--format", "parquet").out))
    listed = rows(command, train)
    assert all(frame.columns == list(row) for row in listed)
    assert set(ROW_KEYS[command]) <= set(frame.columns)
    assert [json.loads(json.dumps(row)) for row in frame.iter_rows(named=True)] == listed


@COMMANDS
def test_csv_holds_the_rows_of_json(command: str, train: Path) -> None:
    text = run(command, train, "--format", "csv").text
    read = list(csv.DictReader(io.StringIO(text)))
    listed = rows(command, train)
    assert len(read) == len(listed)
    for got, row in zip(read, listed, strict=True):
        assert list(got) == list(row)
        for name, value in row.items():
            assert same_in_csv(got[name], value), name


def same_in_csv(text: str, value: Any) -> bool:
    match value:
        case None:
            return text == ""
        case bool():
            return text == str(value).lower()
        case float():
            return float(text) == value
        case list() | dict():
            return bool(json.loads(text) == value)
        case _:
            return text == str(value)


@COMMANDS
def test_a_table_is_a_screenful_that_says_what_is_left_out(command: str, train: Path) -> None:
    ran = run(command, train)
    assert (ran.code, ran.err) == (0, "")
    count = len(rows(command, train))
    assert train.name in ran.text.splitlines()[0]
    if count > 20 and command != "findings":
        assert f"20 of {count:,} rows (--limit 0 shows all)" in ran.text
    assert all(line == line.rstrip() for line in ran.text.splitlines())


@COMMANDS
@pytest.mark.parametrize("form", ["json", "csv", "parquet", "table"])
def test_a_file_holds_what_standard_output_would(
    command: str, form: str, train: Path, tmp_path: Path
) -> None:
    ran = run(command, train, "-f", form, "-o", tmp_path / "rows")
    assert (ran.code, ran.out, ran.err) == (0, b"", "")
    if form != "table":
        assert (tmp_path / "rows").read_bytes() == run(command, train, "-f", form).out
    assert [p.name for p in tmp_path.iterdir()] == ["rows"]


@COMMANDS
def test_a_limit_keeps_the_first_rows(command: str, train: Path) -> None:
    every = rows(command, train)
    assert rows(command, train, "--limit", "1") == every[:1]
    assert rows(command, train, "--limit", "0") == every
    document = run(command, train, "--limit", "1", "-f", "json").json()
    assert document["rows_total"] == len(every)


@COMMANDS
def test_a_dataset_gives_the_same_answer_as_its_export(
    command: str, train: Path, dataset: Path
) -> None:
    documents = [run(command, path, "--format", "json").json() for path in (train, dataset)]
    for document in documents:
        del document["source"]
    assert documents[0] == documents[1]


@COMMANDS
def test_the_only_gpu_is_the_same_as_all(command: str, train: Path) -> None:
    assert rows(command, train, "--gpu", "0") == rows(command, train)


@COMMANDS
def test_the_whole_time_is_the_same_as_no_window(command: str, train: Path) -> None:
    assert rows(command, train, "--from", "0") == rows(command, train)


@pytest.mark.parametrize("command", ["gaps", "memcpy"])
@pytest.mark.parametrize("window", [("--from", "50", "--to", "100"), ("--nvtx", "forward")])
def test_a_window_lists_what_is_inside(command: str, window: tuple[str, ...], train: Path) -> None:
    inside = run(command, train, *window, "-f", "json").json()
    windows = inside["analysed_windows"]
    assert windows
    assert 0 < len(inside["rows"]) < len(rows(command, train))
    for row in inside["rows"]:
        assert any(w["start_ns"] <= row["start_ns"] < w["end_ns"] for w in windows)


def test_a_window_splits_the_states_of_what_is_inside(train: Path) -> None:
    halves = [rows("info", train, *window)[0] for window in (("--to", "100"), ("--from", "100"))]
    (whole,) = rows("info", train)
    for name in ("window_ns", "compute_ns", "comm_ns", "copy_ns", "memset_ns", "idle_ns"):
        assert halves[0][name] + halves[1][name] == whole[name]


def test_minimum_gap_is_an_option(train: Path) -> None:
    every = rows("gaps", train, "--min-us", "0")
    assert sum(r["duration_ns"] for r in every) == rows("info", train)[0]["idle_ns"]
    assert rows("gaps", train, "--min-us", "1500") == [
        r for r in sorted(every, key=lambda r: -r["duration_ns"]) if r["duration_ns"] >= 1_500_000
    ]


def test_blocking_copies_alone(train: Path) -> None:
    every = rows("memcpy", train)
    assert rows("memcpy", train, "--blocking") == [r for r in every if r["blocking"]]


@COMMANDS
def test_text_of_a_pipe_has_no_colours(command: str, train: Path) -> None:
    assert "\x1b" not in run(command, train).text
