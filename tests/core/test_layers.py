"""The layers of the package, checked over its imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "nsys_deepprof"
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Full names of all modules that the file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({node.module, *(f"{node.module}.{a.name}" for a in node.names)})
    return names


def ours(path: Path) -> set[str]:
    """Names of this package's modules that the file imports, without the package's name."""
    prefix = "nsys_deepprof."
    return {n.removeprefix(prefix) for n in imported(path) if n.startswith(prefix)}


def in_layer(path: Path, layer: str) -> bool:
    return path.relative_to(PACKAGE).parts[0] == layer


@pytest.mark.parametrize("module", ["errors.py", "units.py", "mining/suffix_tree.py"])
def test_the_lowest_layer_knows_nothing_of_ours(module: str) -> None:
    assert ours(PACKAGE / module) == set()


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_only_sources_touch_sqlite(path: Path) -> None:
    sqlite = {"sqlite3", "sqlite_utils", "adbc_driver_sqlite", "adbc_driver_manager"}
    allowed = in_layer(path, "batch") or path.name.removesuffix(".py") in {"sources", "queries"}
    allowed = allowed or in_layer(path, "sources")
    assert allowed or not sqlite & imported(path)


@pytest.mark.parametrize("path", [p for p in MODULES if in_layer(p, "reports")], ids=str)
def test_reports_see_no_trace_and_no_source(path: Path) -> None:
    seen = {name.split(".")[0] for name in ours(path)}
    assert not seen & {"trace", "sources", "queries", "extract", "dataset", "device", "mining"}


@pytest.mark.parametrize("path", [p for p in MODULES if in_layer(p, "analyses")], ids=str)
def test_analyses_neither_plot_nor_render(path: Path) -> None:
    assert not {"altair", "jinja2", "rich"} & imported(path)
    assert not {n for n in ours(path) if n.split(".")[0] in {"reports", "cli", "sources"}}


@pytest.mark.parametrize("path", [p for p in MODULES if not in_layer(p, "cli")], ids=str)
def test_only_the_command_line_prints_and_exits(path: Path) -> None:
    assert not {"typer", "click"} & imported(path)
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    names = {ast.unparse(call.func) for call in calls}
    assert not names & {"print", "sys.exit", "exit", "sys.stdout.write"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not for types, and not inside functions either; but a result shows itself in a notebook."""
    modules = {".".join(p.relative_to(PACKAGE).with_suffix("").parts): p for p in MODULES}
    graph = {name: ours(path) & set(modules) - {name} for name, path in modules.items()}
    graph["result"].remove("reports.inline")
    while leaves := {name for name, needs in graph.items() if not needs & set(graph)}:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}
    assert graph == {}


def test_heavy_packages_are_not_imported_by_the_command_line_itself() -> None:
    import subprocess
    import sys

    code = "import nsys_deepprof.cli.app, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"polars", "pyarrow", "numpy", "numba", "altair", "jinja2", "sqlite_utils", "dask"}
    assert not heavy & set(loaded)
