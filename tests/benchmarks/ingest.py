"""Converting a big export, beside a C program that only steps through the same SELECTs.

usage: python -m tests.benchmarks.ingest [MILLIONS]    default 10; needs cc and sqlite3.h

The two alternate, three times each, and the best of each counts, so that other work on the machine
falls on both.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nsys_deepprof.queries import load_query
from tests.benchmarks.big_export import write_big_export

ROUNDS = 3
_CONVERT = (
    "import resource, sys, nsys_deepprof as nd; nd.convert(sys.argv[1], sys.argv[2]);"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
)


def build_yardstick(folder: Path) -> Path:
    """Compile the C program."""
    program = folder / "step_rows"
    source = Path(__file__).with_name("step_rows.c")
    subprocess.run(["cc", "-O2", "-o", program, source, "-lsqlite3"], check=True)
    return program


def seconds(command: list[str | Path]) -> tuple[float, float, str]:
    """How long a command takes, how much processor time, and what it prints."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    took, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, used, done.stdout


def measure(folder: Path, rows: int) -> dict[str, float]:
    """Seconds of both, and the peak memory, for an export of `rows` kernels and calls."""
    export = write_big_export(folder / f"{rows}.sqlite", rows)
    selects = [load_query(name).sql for name in ("kernels", "api_calls")]
    yardstick: list[str | Path] = [build_yardstick(folder), export, *selects]
    out = folder / "out.deepprof"
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(seconds(yardstick))
        ours.append(seconds([sys.executable, "-c", _CONVERT, export, out]))
        shutil.rmtree(out)
    convert_s, c_program_s = min(t for t, *_ in ours), min(t for t, *_ in theirs)
    size_bytes = export.stat().st_size
    export.unlink()
    return {
        "rows": 2 * rows,
        "file_mb": round(size_bytes / 1e6),
        "convert_s": round(convert_s, 2),
        "convert_cpu_s": round(min(used for _, used, _ in ours), 2),
        "c_program_s": round(c_program_s, 2),
        "c_program_cpu_s": round(min(used for _, used, _ in theirs), 2),
        "ratio": round(convert_s / c_program_s, 3),
        "peak_mib": max(int(printed) for *_, printed in ours),
    }


def main(millions: int = 10) -> None:
    """Print what a million and what `millions` take, as JSON, and the load of the machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one = measure(folder, 1_000_000)
        many = measure(folder, millions * 1_000_000)
    growth = round(many["convert_s"] / one["convert_s"], 2)
    print(json.dumps({"one": one, "many": many, "growth": growth, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
