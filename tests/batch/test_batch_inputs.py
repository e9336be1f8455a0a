"""Which runs a batch takes from files, folders, patterns and lists, and how they are tagged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.batch.inputs import find_inputs
from nsys_deepprof.batch.tags import parse_tags, path_tagger, tags_of
from nsys_deepprof.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def touch(root: Path, *names: str) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def names(found: list[str], root: Path) -> list[str]:
    return [os.path.relpath(path, root) for path in found]


def test_a_folder_is_searched_whole_and_in_order(tmp_path: Path) -> None:
    touch(tmp_path, "b.sqlite", "a/z.sqlite", "a/notes.txt", "a/.hidden.sqlite", ".cache/x.sqlite")
    touch(tmp_path, "a/deep/er/y.sqlite.gz", "c.nsys-rep", "d_pqtdir/StringIds.parquet")
    assert names(find_inputs([str(tmp_path)]), tmp_path) == [
        "a/deep/er/y.sqlite.gz",
        "a/z.sqlite",
        "b.sqlite",
        "c.nsys-rep",
        "d_pqtdir",
    ]


def test_numbers_in_names_are_in_order_of_their_values(tmp_path: Path) -> None:
    touch(tmp_path, "rank10.sqlite", "rank2.sqlite", "rank02.sqlite", "rank1b3.sqlite", "r.sqlite")
    touch(tmp_path, "9/a.sqlite", "10/a.sqlite", "rank٣.sqlite", "7.sqlite", "x.sqlite")
    ordered = [
        *("7.sqlite", "9/a.sqlite", "10/a.sqlite", "r.sqlite", "rank1b3.sqlite"),
        *("rank02.sqlite", "rank2.sqlite", "rank٣.sqlite", "rank10.sqlite", "x.sqlite"),
    ]
    assert names(find_inputs([str(tmp_path)]), tmp_path) == ordered
    assert names(find_inputs([str(tmp_path / "rank[0-9]*.sqlite")]), tmp_path) == [
        name for name in ordered if name.startswith("rank") and "٣" not in name
    ]


def test_one_form_of_a_run_stands_for_all(tmp_path: Path) -> None:
    touch(tmp_path, "run.sqlite", "run.nsys-rep", "run.deepprof/manifest.json", "other.nsys-rep")
    touch(tmp_path, "only.deepprof/manifest.json", "only.nsys-rep", "sub/run.nsys-rep")
    found = names(find_inputs([str(tmp_path)]), tmp_path)
    assert found == ["only.deepprof", "other.nsys-rep", "run.sqlite", "sub/run.nsys-rep"]


def test_the_output_is_not_searched(tmp_path: Path) -> None:
    touch(tmp_path, "a.sqlite", "out/runs/1/dataset/manifest.json", "out/b.sqlite")
    found = find_inputs([str(tmp_path)], exclude_dir=tmp_path / "out")
    assert names(found, tmp_path) == ["a.sqlite"]


def test_patterns_lists_and_files_keep_their_order_and_come_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "x/r2.sqlite", "x/r1.sqlite", "y/r3.sqlite", "any.bin")
    monkeypatch.chdir(tmp_path)
    listed = ["y/r3.sqlite\n", "\n", "gone.sqlite\n", "x/r1.sqlite"]
    found = find_inputs(["any.bin", "x/r*.sqlite", "-"], listed=listed)
    expected = ["any.bin", "x/r1.sqlite", "x/r2.sqlite", "y/r3.sqlite", "gone.sqlite"]
    assert names(found, tmp_path) == expected
    assert names(find_inputs(["**/*.sqlite"]), tmp_path) == expected[1:4]
    assert names(find_inputs(["[xy]"]), tmp_path) == expected[1:4]
    assert names(find_inputs(["."], include=["r[12]*"]), tmp_path) == expected[1:3]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    touch(tmp_path, "run[1].sqlite", "run1.sqlite")
    found = find_inputs([str(tmp_path / "run[1].sqlite")])
    assert names(found, tmp_path) == ["run[1].sqlite"]


@pytest.mark.parametrize("given_path", ["", "*.sqlite"])
def test_a_folder_or_a_pattern_without_runs_is_an_error(tmp_path: Path, given_path: str) -> None:
    touch(tmp_path, "notes.txt")
    with pytest.raises(InputError):
        find_inputs([str(tmp_path / given_path)])


def test_a_missing_path_is_kept_to_become_a_failed_run(tmp_path: Path) -> None:
    assert find_inputs([str(tmp_path / "gone.sqlite")]) == [str(tmp_path / "gone.sqlite")]


def test_tags_come_from_options_and_from_the_path() -> None:
    fixed = parse_tags(["team=vision", "note=a=b", " x = y "])
    assert fixed == {"team": "vision", "note": "a=b", "x": "y"}
    taggers = [path_tagger("{model}/{gpu}-bs{batch}.sqlite"), path_tagger("{model}_*.sqlite")]
    assert tags_of("/data/bert/a100-bs32.sqlite", fixed, taggers) == fixed | {
        "model": "bert",
        "gpu": "a100",
        "batch": "32",
    }
    assert tags_of("/data/vit_7.sqlite", {"model": "old"}, taggers) == {"model": "vit"}
    assert tags_of("/data/other.txt", fixed, taggers) == fixed


@pytest.mark.parametrize("bad", ["novalue", "=x", ""])
def test_bad_tags_are_refused(bad: str) -> None:
    with pytest.raises(UsageError):
        parse_tags([bad])


@pytest.mark.parametrize("bad", ["plain/*.sqlite", "{a}/{a}.sqlite", "{1}.sqlite"])
def test_bad_path_templates_are_refused(bad: str) -> None:
    with pytest.raises(UsageError):
        path_tagger(bad)


WORD = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


@given(st.lists(WORD, min_size=1, max_size=4), st.lists(WORD, max_size=3))
def test_a_template_reads_back_what_it_wrote(values: list[str], folders: list[str]) -> None:
    fields = [f"t{i}" for i in range(len(values))]
    template = "/".join(f"{{{field}}}" for field in fields) + ".sqlite"
    path = "/" + "/".join([*folders, *values]) + ".sqlite"
    assert tags_of(path, {}, [path_tagger(template)]) == dict(zip(fields, values, strict=True))
