"""Whether reading a file ends well: an answer or one error, in time, in memory, file unchanged."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import resource
import sys
import threading
import time
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from nsys_deepprof.analyses.info import info
from nsys_deepprof.dataset import convert
from nsys_deepprof.errors import InputError
from nsys_deepprof.opening import open_trace
from nsys_deepprof.trace import TABLES
from tests.ingest.mutations import write_mutant

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

T = TypeVar("T")

LONGEST_S = 10
"""Processor time that one file may take, read twice and converted."""
MOST_MIB = 1024


def verdict(path: Path) -> str:
    """'answer', or the error's line; raises AssertionError for what must not happen."""
    before = hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns
    out = path.with_name("out.deepprof")
    begin = time.process_time()
    direct, complaint = _tables(path)
    made, refusal = _attempt(lambda: convert(path, out))
    assert refusal == complaint, f"{refusal!r}, but read directly: {complaint!r}"
    if made is None:
        assert not out.exists()
        assert complaint.startswith(str(path))
        assert "\n" not in complaint
    else:
        again, complaint = _tables(out)
        assert not complaint
        assert all(frame.equals(direct[table]) for table, frame in again.items())
    assert time.process_time() - begin < LONGEST_S
    assert (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before
    return complaint or "answer"


def _tables(run: Path) -> tuple[dict[str, pl.DataFrame], str]:
    def read() -> dict[str, pl.DataFrame]:
        trace = open_trace(run)
        # In the order of a conversion: a file with several faults then ends at the same one.
        tables = {table: trace.table(table) for table in TABLES}
        info(trace)
        return tables

    tables, complaint = _attempt(read)
    return tables or {}, complaint


def _attempt(act: Callable[[], T]) -> tuple[T | None, str]:
    """What `act` returns, or the line of its error, which must be one of the input."""
    try:
        return act(), ""
    except InputError as error:
        return None, error.line()


def survive(first: int, count: int) -> dict[str, int]:
    """Try `count` mutants: how many gave an answer, how many an error. Raises on a bad end."""
    outcomes = {"answer": 0, "error": 0}
    for seed in range(first, first + count):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "x.sqlite"
            kind = write_mutant(path, seed)
            # A hang cannot be interrupted from within: end the process, and say where it was. By
            # the clock on the wall, so with room for other work on the machine.
            timer = threading.Timer(20 * LONGEST_S, _die, (seed, kind))
            timer.daemon = True
            timer.start()
            try:
                said = verdict(path)
            except BaseException as error:
                raise AssertionError(f"mutant {seed} ({kind}): {error!r}") from error
            finally:
                timer.cancel()
        outcomes["answer" if said == "answer" else "error"] += 1
    return outcomes


def _die(seed: int, kind: str) -> None:
    print(f"mutant {seed} ({kind}) hangs", file=sys.stderr, flush=True)
    faulthandler.dump_traceback()
    os._exit(1)


def peak_mib() -> int:
    """The most memory that this process has had at once."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss begins with that of the process that started this one.
        [line] = [text for text in status.read_text().splitlines() if text.startswith("VmHWM:")]
        return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    # Run as a process of its own: usage FIRST COUNT; prints outcomes and peak memory as JSON.
    try:
        found = survive(int(sys.argv[1]), int(sys.argv[2]))
    except AssertionError:
        traceback.print_exc()
        sys.exit(1)
    print(json.dumps(found | {"peak_mib": peak_mib()}))
