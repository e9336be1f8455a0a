"""How fast the miner is, and in how much memory: fresh processes, from a converted dataset.

    python -m tests.benchmarks.mining_speed [--kernels 1000000 10000000] [--folder DIR]

First `patterns` and `iterations` of a nested loop, from the dataset to the printed result. Then
sequences that are hard in other ways, in memory, beside the nested loop: each kind in a process of
its own. Times are CPU time (user and system, all threads) and wall time; memory is the peak of the
process. The machine code is compiled beforehand, by a run that is not counted: once after an
installation.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

KINDS = ("nested", "noisy", "same", "different", "fibonacci", "random")
GLOBAL_PID = (1 << 48) | (4242 << 24)
CHUNK = 200_000


class Cost(NamedTuple):
    """What one process took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def symbols(kind: str, size: int) -> NDArray[np.int32]:
    """A sequence of `size` kernels."""
    rng = np.random.default_rng(7)
    step = np.concatenate(
        [
            np.arange(5),
            np.tile(np.arange(5, 14), 24),
            np.arange(14, 21),
            np.tile(np.arange(21, 34), 24),
            np.arange(34, 64),
        ]
    )
    nested = np.resize(step, size)
    match kind:
        case "nested":
            made = nested
        case "noisy":
            made = np.where(rng.random(size) < 0.01, rng.integers(0, 64, size), nested)
        case "same":
            made = np.zeros(size)
        case "different":
            made = np.arange(size)
        case "fibonacci":
            shorter, longer = np.array([0]), np.array([0, 1])
            while len(longer) < size:
                shorter, longer = longer, np.concatenate([longer, shorter])
            made = longer[:size]
        case "random":
            made = rng.integers(0, 60, size)
        case _:
            raise ValueError(kind)
    return made.astype(np.int32)


def write_export(path: Path, codes: NDArray[np.int32]) -> None:
    """An export with these kernels on one stream, 10 us each, 1 us apart."""
    columns = [
        *("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"),
        *("demangledName", "shortName", "registersPerThread", "gridX", "gridY", "gridZ"),
        *("blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory"),
        *("localMemoryPerThread", "localMemoryTotal", "gridId"),
    ]
    constant = (0, 1, 7)
    rest = (32, 128, 1, 1, 256, 1, 1, 0, 0, 0, 0)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        names = ((i, f"void kernel_{i}<float>(float*)") for i in range(int(codes.max()) + 1))
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        db.execute(f"CREATE TABLE {table} ({', '.join(f'{c} INTEGER' for c in columns)})")
        insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})"
        for low in range(0, len(codes), CHUNK):
            part = codes[low : low + CHUNK].tolist()
            db.executemany(
                insert,
                (
                    (s := 11_000 * i, s + 10_000, *constant, i, GLOBAL_PID, c, c, *rest, i)
                    for i, c in enumerate(part, low)
                ),
            )


def measure(command: Sequence[str]) -> Cost:
    """Run a command, its output thrown away. Raises CalledProcessError where it fails."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024)


def mine_in_memory(kind: str, size: int) -> None:
    """Find the iterations of one kind of sequence; what a process of its own runs."""
    from nsys_deepprof.mining.iterations import find_iterations
    from nsys_deepprof.mining.sequence import make_sequence

    codes = symbols(kind, size)
    start = np.arange(size, dtype=np.int64) * 11_000
    names = [str(code) for code in range(int(codes.max()) + 1)]
    find_iterations(make_sequence(codes, start, start + 10_000, names))


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="keep exports and datasets here")
    parser.add_argument("--mine", nargs=2, metavar=("KIND", "SIZE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.mine:
        mine_in_memory(asked.mine[0], int(asked.mine[1]))
        return
    program = [sys.executable, "-c", "from nsys_deepprof.cli import main; main()"]
    with tempfile.TemporaryDirectory(dir=asked.folder) as scratch:
        folder = asked.folder or Path(scratch)
        print("| from the dataset | kernels | CPU s | wall s | peak MB | CPU s per million |")
        print("|---|---|---|---|---|---|")
        for size in asked.kernels:
            dataset = folder / f"nested-{size}.deepprof"
            if not dataset.exists():
                export = folder / f"nested-{size}.sqlite"
                write_export(export, symbols("nested", size))
                # In a process of its own: the peak of a child begins with that of its parent.
                measure([*program, "convert", str(export), "-o", str(dataset)])
            for command in ("patterns", "iterations"):
                run = [*program, command, str(dataset)]
                if size == asked.kernels[0]:
                    measure(run)
                _print_row(command, size, measure(run))
    this = [sys.executable, "-m", "tests.benchmarks.mining_speed", "--mine"]
    print("\n| in memory | kernels | CPU s | wall s | peak MB | CPU s per million |")
    print("|---|---|---|---|---|---|")
    for size in asked.kernels:
        for kind in KINDS:
            _print_row(kind, size, measure([*this, kind, str(size)]))


def _print_row(what: str, size: int, cost: Cost) -> None:
    per_million = cost.cpu_s / (size / 1e6)
    print(
        f"| {what} | {size:,} | {cost.cpu_s:.1f} | {cost.wall_s:.1f} | {cost.peak_mb:,.0f} "
        f"| {per_million:.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
