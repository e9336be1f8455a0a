"""What the README shows is what the commands print."""

from __future__ import annotations

import re

import pytest

from tests.core.readme import README, definitions, examples, output

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
