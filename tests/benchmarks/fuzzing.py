"""5,000 damaged and hostile files, on every core.

usage: python -m tests.benchmarks.fuzzing [COUNT [FIRST]]     prints outcomes and peak memory
"""

from __future__ import annotations

import os
import subprocess
import sys

COUNT = 5000
FIRST = 1_000_000


def main(count: int = COUNT, first: int = FIRST) -> int:
    """Try `count` mutants; the number of processes that found a bad end."""
    workers = len(os.sched_getaffinity(0))
    each = -(-count // workers)
    command = [sys.executable, "-m", "tests.ingest.survival"]
    running = [
        subprocess.Popen([*command, str(first + worker * each), str(each)])
        for worker in range(workers)
    ]
    return sum(process.wait() != 0 for process in running)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
