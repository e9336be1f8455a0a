"""A worker process that one run at a time is done in, and what may happen to it.

The process imports everything once and then takes requests, so that a small run costs little. It
is watched from outside: a run that takes too long or too much memory is killed, with all that it
started, and one whose process dies is known by how it died. The next run gets a new process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nsys_deepprof.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_S = 0.1
_START_S = 120
_RETIRE_BYTES = 1 << 30
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """What one run may take: seconds and bytes of resident memory; None is no limit.

    Memory is watched where `/proc` tells it (Linux).
    """

    timeout_s: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Death:
    """A run that gave no answer: `reason` is for people; `again` tells that a retry may help."""

    reason: str
    again: bool


def memory_share(workers: int) -> int:
    """What each of `workers` may take so that all of them fit into nine tenths of the memory."""
    return os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES * 9 // 10 // workers


class IsolatedWorker:
    """A worker process, started when it is first needed and replaced when it dies.

    `module` is run as a program. It says `{"notice": "ready"}`, then reads one JSON object a line
    from its standard input and answers each with any number of notices (objects with the one key
    `notice`) and then one object of another kind.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._heard = b""
        self.closing = False

    def ask(
        self, request: dict[str, Any], limits: Limits, notice: Callable[[Any], None]
    ) -> dict[str, Any] | Death:
        """The answer to `request`, or how the process died over it.

        The time counts from when the process is ready for it.
        """
        if self._process is None:
            self._start()
            ready = self._next_line(Limits(timeout_s=_START_S), time.monotonic())
            if isinstance(ready, Death):
                return ready
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return self._died()
        begun = time.monotonic()
        while True:
            said = self._next_line(limits, begun)
            if isinstance(said, Death):
                return said
            if "notice" not in said:
                self._retire_if_large()
                return said
            notice(said["notice"])

    def _next_line(self, limits: Limits, begun_s: float) -> dict[str, Any] | Death:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        while b"\n" not in self._heard:
            if select.select([process.stdout], [], [], _LOOK_S)[0]:
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    return self._died()
                self._heard += chunk
            if self.closing:
                return self._end("stopped")
            if limits.timeout_s is not None and time.monotonic() - begun_s > limits.timeout_s:
                return self._end(f"took longer than {limits.timeout_s:g} s")
            used_bytes = _resident_bytes(process.pid)
            if limits.memory_bytes is not None and used_bytes > limits.memory_bytes:
                return self._end(f"needed more than {format_bytes(limits.memory_bytes)} of memory")
        line, _, self._heard = self._heard.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def _end(self, reason: str) -> Death:
        self.stop()
        return Death(reason, again=False)

    def close(self) -> None:
        """From another thread than the one in `ask`: end that call soon, with a death."""
        self.closing = True

    def stop(self) -> None:
        """Kill the process and all that it started; nothing happens when there is none."""
        process, self._process = self._process, None
        if process is None:
            return
        # It leads its own group. While it is not reaped the group's number is no other's.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, self._errors):
            if pipe is not None:
                # What was still unsent has no reader any more.
                with suppress(BrokenPipeError):
                    pipe.close()

    def _start(self) -> None:
        self._heard = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **_ONE_CORE},
            start_new_session=True,
        )

    def _died(self) -> Death:
        process = self._process
        assert process is not None
        # Wait without reaping, so that `stop` still finds the group, and then what it left.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        said = self._last_words()
        self.stop()
        code = process.returncode
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with status {code}"
        return Death(f"the worker process {how}{said}", again=True)

    def _last_words(self) -> str:
        assert self._errors is not None
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 4096))
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {last[:300]}" if last else ""

    def _retire_if_large(self) -> None:
        assert self._process is not None
        if _resident_bytes(self._process.pid) > _RETIRE_BYTES:
            # Allocators keep what a large run needed: a new process gives it back.
            self.stop()
        else:
            # The position is shared with the process: the next run's errors overwrite this one's.
            assert self._errors is not None
            self._errors.seek(0)
            self._errors.truncate()


_ONE_CORE = {
    "POLARS_MAX_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""A worker uses one core: the speed of a batch comes from the number of workers."""


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
