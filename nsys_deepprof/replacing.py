"""Directories that appear whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from nsys_deepprof.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOCK = ".lock"
_SUFFIX = ".partial"
_TRIES = 10
_NO_SPACE = "no space left on device"


@contextmanager
def replacing(out: Path, *, check: Callable[[], object]) -> Iterator[Path]:
    """A new directory that takes the place of `out` when the block ends without an error.

    `check` is called where `out` exists by then: it raises where that must stay. What a killed
    process left of this is cleared away first. Raises OutputError where the disk is full or
    the place cannot be written.
    """
    prefix = f".{out.name}."
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(out.parent, prefix)
        scratch = Path(tempfile.mkdtemp(prefix=prefix, suffix=_SUFFIX, dir=out.parent))
    except OSError as error:
        raise _no_output(out, error) from error
    try:
        with (scratch / f"{_LOCK}.new").open("w") as lock:
            # Only a lock that is held gets the name by which others look for it.
            fcntl.flock(lock, fcntl.LOCK_EX)
            (scratch / f"{_LOCK}.new").rename(scratch / _LOCK)
            new = scratch / "new"
            new.mkdir()
            yield new
            _swap(new, out, scratch / "old", check)
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise _no_output(out, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _swap(new: Path, out: Path, old: Path, check: Callable[[], object]) -> None:
    for tries_left in reversed(range(_TRIES)):
        if os.path.lexists(out):
            check()
            # A directory cannot be renamed onto a full one: the old one steps aside first.
            with suppress(FileNotFoundError):
                out.rename(old)
        try:
            new.rename(out)
        except OSError:
            # Another process put its own there in between.
            if not tries_left:
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            return


def _clear_leftovers(parent: Path, prefix: str) -> None:
    """Remove scratch directories whose process is gone: nobody holds their lock."""
    for left in parent.iterdir():
        if not (left.name.startswith(prefix) and left.name.endswith(_SUFFIX)):
            continue
        with suppress(OSError), (left / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)


def _no_output(out: Path, error: Exception) -> OutputError:
    what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if _NO_SPACE in str(error).lower():
        what = _NO_SPACE
    return OutputError(out, f"cannot be written: {what.lower()}", "check space and permissions")
