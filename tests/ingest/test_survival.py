"""A few hundred damaged and hostile files; the benchmarks try thousands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ingest.survival import MOST_MIB

COUNT = 75


@pytest.mark.parametrize("first", range(0, 4 * COUNT, COUNT))
def test_damaged_files_end_in_an_answer_or_one_error(first: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ingest.survival", str(first), str(COUNT)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["answer"] + outcome["error"] == COUNT
    assert min(outcome["answer"], outcome["error"]) > COUNT // 8
    assert outcome["peak_mib"] < MOST_MIB
