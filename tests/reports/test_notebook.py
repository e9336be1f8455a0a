"""The worked notebook runs from top to bottom, and every answer in it has something to show."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "fixtures" / "train.ipynb"


def code_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a kernel does: the value of its last expression is what is shown."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def test_every_cell_runs_and_shows_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    beside = sorted(NOTEBOOK.parent.iterdir())
    names: dict[str, Any] = {}
    shown = [run_cell(source, names) for source in code_cells()]
    assert all(value is not None for value in shown)
    kinds = [type(value).__name__ for value in shown]
    assert kinds.count("Result") == 6
    assert {"Report", "DataFrame", "float", "int"} <= set(kinds)
    for value in shown:
        if type(value).__name__ == "Result":
            assert "<table" in value._repr_html_()
    assert 0.3 < next(v for v in shown if isinstance(v, float)) < 1
    assert sorted(NOTEBOOK.parent.iterdir()) == beside


def test_it_is_a_notebook_without_stored_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert all(cell.get("outputs", []) == [] for cell in notebook["cells"])
