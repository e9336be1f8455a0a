"""The command line: the only place that prints, exits and picks an engine."""

from __future__ import annotations

import errno
import os
import sys


def main() -> None:
    """Entry point of `nsys-deepprof`: runs a command, turns an error into one line and a status.

    Exit status: 0 done, 1 a check failed, 2 wrong usage, 3 unusable input, 4 some runs of a batch
    failed. With `--debug` before the command an error keeps its traceback.
    """
    from nsys_deepprof.cli.app import app
    from nsys_deepprof.errors import DeepProfError

    debug = "--debug" in sys.argv[1:2]
    if debug:
        del sys.argv[1]
    try:
        try:
            app(prog_name="nsys-deepprof")
        finally:
            # What is still to be written fails here, not when Python ends.
            if sys.stdout is not None:
                sys.stdout.flush()
    except DeepProfError as error:
        if debug:
            raise
        print(f"error: {error.line()}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is wrong, and nothing is left.
        _forget_output()
        sys.exit(0)
    except OSError as error:
        if debug or error.errno not in (errno.ENOSPC, errno.EBADF, errno.EIO):
            raise
        # All files that commands write say so themselves.
        reason = (error.strerror or str(error)).lower()
        print(f"error: standard output: cannot be written: {reason}", file=sys.stderr)  # noqa: T201
        _forget_output()
        sys.exit(3)
    except MemoryError:
        if debug:
            raise
        print("error: out of memory (narrow the trace with --from/--to)", file=sys.stderr)  # noqa: T201
        sys.exit(3)


def _forget_output() -> None:
    """Leave nothing for Python to write at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
