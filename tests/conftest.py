"""Fixtures that every test can use: the real traces, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

TRACES = Path(
    os.environ.get(
        "NSYS_DEEPPROF_TRACES", Path(__file__).resolve().parents[1].parent / "shared" / "traces"
    )
)

REAL_TRACES = sorted(path.stem for path in TRACES.glob("*.sqlite"))
"""Names of the real traces at hand, for parametrisation."""


def real_trace_path(name: str) -> Path:
    """The real trace `name`; skips the test where it is absent."""
    path = TRACES / f"{name}.sqlite"
    if not path.is_file():
        pytest.skip(f"real trace {name} is not at hand (set NSYS_DEEPPROF_TRACES)")
    return path


@pytest.fixture(scope="session")
def real_trace() -> Callable[[str], Path]:
    """`real_trace(name)` is the path of that real trace; skips where it is absent."""
    return real_trace_path


@pytest.fixture(
    params=REAL_TRACES
    or [pytest.param("", marks=pytest.mark.skip(reason="no real traces (NSYS_DEEPPROF_TRACES)"))]
)
def each_real_trace(request: pytest.FixtureRequest) -> Path:
    """Every real trace in turn."""
    return real_trace_path(request.param)
