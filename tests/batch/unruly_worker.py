"""A worker process that does what the name of its input says: dies, hangs, takes memory."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsys_deepprof.batch import job, worker

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE = "tests.batch.unruly_worker"

_do_run = job.do_run


def _unruly(path: str, out: Path, identified: Callable[[Any], None]) -> Any:
    name = Path(path).name
    marker = Path(f"{path}.seen")
    if name.startswith("killer") or (name.startswith("once") and not marker.exists()):
        marker.touch()
        identified(job.state.identify(path))
        print("about to die", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if name.startswith("host-killer"):
        # The process that asks, a Dask worker: this one ends when its input does.
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    if name.startswith("exit"):
        os._exit(7)
    if name.startswith("hang"):
        time.sleep(3600)
    if name.startswith("hog"):
        held = [bytearray(b"x" * (8 << 20))]
        while len(held) < 1000:
            held.append(bytearray(b"x" * (8 << 20)))
            time.sleep(0.01)
    if name.startswith("slow"):
        time.sleep(0.4)
    return _do_run(path, out, identified)


if __name__ == "__main__":
    job.do_run = _unruly
    worker.main()
