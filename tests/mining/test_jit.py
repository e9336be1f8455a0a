"""Compiled loops where the machine code cannot be kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LOOP = """
import numpy as np
from nsys_deepprof.mining.jit import compiled

@compiled
def total(values):
    result = 0
    for value in values:
        result += value
    return result
"""

FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""


@pytest.mark.parametrize("before", ["", FULL_DISK], ids=["disk", "full disk"])
def test_a_loop_runs_whether_or_not_its_code_can_be_kept(before: str, tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    code = f"{before}\nimport numpy as np, loop\nprint(*[loop.total(np.arange(10_000))] * 2)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "", "HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["49995000"] * 2


def test_a_place_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    code = "import numpy as np, loop; print(loop.total(np.arange(10_000)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": "/dev/null/nowhere",
        },
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "49995000\n"
