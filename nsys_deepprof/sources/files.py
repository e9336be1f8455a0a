"""Plain files: whether they can be read, what they hold, and whether they stayed the same."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsys_deepprof.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """What a source is: its name, its size, and a digest of all its bytes."""

    name: str
    bytes: int
    mtime_ns: int
    fingerprint: str


@dataclass(frozen=True)
class Status:
    """What changes when a file does, even where its time of modification is set back."""

    size: int
    inode: int
    mtime_ns: int
    ctime_ns: int


def check_file(path: Path) -> Status:
    """The status of a regular file that can be read; InputError says what else it is."""
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(path, reason(error), "check the path") from error
    except ValueError as error:
        raise InputError(path, "not a usable path", "check the path") from error
    if stat.S_ISDIR(found.st_mode):
        raise InputError(path, "a directory, and not a converted dataset", "name the export itself")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(path, "not a regular file", "copy the export to a file first")
    if not os.access(path, os.R_OK):
        raise InputError(path, "no permission to read it", "check the file's mode")
    return _status(found)


def check_unchanged(path: Path, before: Status) -> None:
    """InputError where the file at `path` is not the one of `before` any more."""
    try:
        same = _status(path.stat()) == before
    except OSError:
        same = False
    if not same:
        raise InputError(path, "changed while it was read", "wait until it is complete")


def fingerprint(path: Path) -> str:
    """Digest of the file's whole content (SHA-256, hexadecimal)."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(path, reason(error)) from error


def identity(path: Path) -> Identity:
    """What the file at `path` is. Reads all of it."""
    status = check_file(path)
    return Identity(shown_name(path), status.size, status.mtime_ns, fingerprint(path))


def shown_name(path: Path) -> str:
    """The last part of a path as text that fits a manifest: a name need not be UTF-8."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def first_bytes(path: Path, count: int) -> bytes:
    """The first `count` bytes of a file, or as many as it has."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise InputError(path, reason(error)) from error


def reason(error: OSError) -> str:
    """What went wrong, in a few words."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return (error.strerror or str(error)).lower()


def _status(found: os.stat_result) -> Status:
    return Status(found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
