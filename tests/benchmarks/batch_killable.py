"""A batch to be killed: `python -m tests.benchmarks.batch_killable OUT PATH...`."""

from __future__ import annotations

import sys
from pathlib import Path

from nsys_deepprof.batch.engines import in_processes
from nsys_deepprof.batch.isolation import Limits
from nsys_deepprof.batch.plan import BatchInput
from nsys_deepprof.batch.run import run_batch
from tests.batch import unruly_worker

if __name__ == "__main__":
    run_batch(
        [BatchInput(path, {}) for path in sys.argv[2:]],
        Path(sys.argv[1]),
        engine=in_processes(2, module=unruly_worker.MODULE),
        limits=Limits(timeout_s=120, memory_bytes=2 << 30),
    )
