"""What the README shows is what the commands print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from nsys_deepprof import check, open_trace
from nsys_deepprof.checking import read_rules
from nsys_deepprof.queries import SQL_DIRECTORY
from nsys_deepprof.trace import TABLES
from tests.core.readme import README, ROOT, definitions, examples, output

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = examples()


def test_the_readme_has_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_an_example_prints_what_the_readme_shows(command: str, shown: str) -> None:
    assert output(command) == shown


def test_the_readme_defines_the_numbers_as_the_report_does() -> None:
    assert definitions() in README.read_text(encoding="utf-8")


def test_the_python_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = README.read_text(encoding="utf-8")
    example = next(e for e in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "nd." in e)
    monkeypatch.chdir(README.parent)
    scope: dict[str, object] = {}
    exec(compile(example, "README", "exec"), scope)
    assert scope["trace"]


def test_the_rules_file_is_one(tmp_path: Path) -> None:
    (written,) = re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "rules.toml"
    file.write_text(written, encoding="utf-8")
    rows = check(open_trace(ROOT / "fixtures" / "train.sqlite"), read_rules(file)).frame
    assert rows["outcome"].to_list() == ["failed"] * 3


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_the_dataset_is_documented(table: str) -> None:
    """By the query of that name, or in the README's table of what several queries go into."""
    told = ""
    page = (SQL_DIRECTORY / "README.md").read_text(encoding="utf-8")
    for section in page.split("\n## "):
        if section.startswith(f"{table}\n"):
            told = section
    dataset = README.read_text(encoding="utf-8").partition("\n## The dataset\n")[2]
    rows = [line for line in dataset.splitlines() if line.startswith("|")]
    of_table = False
    for row in rows:
        first, columns = row.split("|")[1:3]
        of_table = first.strip() == f"`{table}`" or (of_table and not first.strip())
        told += columns if of_table else ""
    columns = open_trace(ROOT / "fixtures" / "train.sqlite").table(table).columns
    assert [column for column in columns if f"`{column}`" not in told] == []
