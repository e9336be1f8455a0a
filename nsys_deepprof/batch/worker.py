"""The program in a worker process: does runs that it is asked for, until its input ends."""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nsys_deepprof.batch import job
from nsys_deepprof.errors import DeepProfError

if TYPE_CHECKING:
    from nsys_deepprof.batch.status import RunIdentity


def main() -> None:
    """Answer requests `{"path": ..., "out": ...}`, one JSON object a line.

    Begins with `{"notice": "ready"}`. The answers are `{"notice": RunIdentity}` as soon as the
    content is known, then either `{"status": RunStatus, "skipped": bool}` or, where the output
    cannot be written, `{"fatal": [subject, what, hint]}`.
    """
    # What libraries print must not mix with the answers.
    with os.fdopen(os.dup(1), "w", encoding="ascii") as answers:
        os.dup2(2, 1)
        _die_first()
        _answer(answers, {"notice": "ready"})
        for request in _requests():
            _answer(answers, _do(request, answers))
            # Traces refer to themselves: without this their frames live on for a while.
            gc.collect()


def _requests() -> Any:
    """Requests as they come. The process ends at once when the asking side has gone."""
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def receive() -> None:
        for line in sys.stdin.buffer:
            waiting.put(line)
        # Nobody waits for the answer any more, whatever is being done.
        os._exit(0)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        yield json.loads(waiting.get())


def _do(request: dict[str, Any], answers: IO[str]) -> dict[str, Any]:
    def identified(identity: RunIdentity) -> None:
        _answer(answers, {"notice": asdict(identity)})

    try:
        status, skipped = job.do_run(request["path"], Path(request["out"]), identified)
    except DeepProfError as error:
        return {"fatal": [error.subject, error.what, error.hint]}
    return {"status": asdict(status), "skipped": skipped}


def _answer(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _die_first() -> None:
    """When memory runs out, let the system choose this process and not the one that asks."""
    # Not Linux, or not allowed: then the system chooses as it likes.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("900")


if __name__ == "__main__":
    main()
