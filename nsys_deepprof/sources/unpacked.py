"""Exports that must be brought to a plain local file first: compressed, remote, or a report.

The file lives in a temporary directory that goes away with the source that reads it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsys_deepprof.errors import InputError
from nsys_deepprof.sources import files
from nsys_deepprof.sources.sqlite import SqliteSource, open_sqlite

if TYPE_CHECKING:
    from collections.abc import Callable

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
COMPRESSED_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}

_COPY_BYTES = 1 << 20
_FREE_BYTES = 1 << 28
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(run: str) -> bool:
    """Whether RUN names a place on an object store rather than a local path."""
    return _URL.match(run) is not None


def open_report(
    path: Path, *, nsys: str | None = None, message: Callable[[str], None] | None = None
) -> SqliteSource:
    """Export an `.nsys-rep` with the user's own nsys and open the result.

    `nsys` names the program; without it the one on PATH. Its version and everything that it
    prints go to `message`, a line at a time. Raises InputError where there is no nsys, or where
    it fails.
    """
    files.check_file(path)
    program = shutil.which(nsys or "nsys")
    if program is None:
        raise InputError(
            path,
            f"an nsys report, and there is no program {nsys or 'nsys'} to export it",
            "install Nsight Systems, or export it elsewhere: "
            f"nsys export --type sqlite {path.name}",
        )
    say = message or (lambda _: None)
    directory = _temporary_directory(str(path))
    try:
        version = _run([program, "--version"])
        say(f"{program}: {' '.join(version.stdout.split())}")
        target = directory / f"{path.stem}.sqlite"
        # An absolute path cannot be taken for an option, whatever the file is called.
        export = ["export", "--type", "sqlite", "--force-overwrite", "true"]
        done = _run([program, *export, "--output", str(target), str(path.absolute())])
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        for line in lines:
            say(line)
        if done.returncode != 0 or not target.is_file():
            last = lines[-1] if lines else "no message"
            raise InputError(
                path,
                f"{program} could not export it (exit status {done.returncode}): {last}",
                "a report needs an nsys of its own version or newer",
            )
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, OSError):
            raise InputError(path, f"{program} cannot be run: {files.reason(error)}") from error
        raise
    return _open(target, str(path), path, directory)


def open_compressed(path: Path) -> SqliteSource:
    """Decompress a `.gz` or `.zst` file and open the result."""
    import pyarrow as pa

    files.check_file(path)
    kind = COMPRESSED_SUFFIXES[path.suffix]

    def unpack(target: Path) -> None:
        with (
            pa.OSFile(str(path), "rb") as packed,
            pa.CompressedInputStream(packed, kind) as source,
        ):
            _copy(source, target, str(path))

    return _unpack(unpack, str(path), path, f"cannot be unpacked as {kind}")


def open_remote(url: str) -> SqliteSource:
    """Copy an export from an object store (an fsspec URL) and open the copy.

    Raises InputError where fsspec or the driver for the store is not installed.
    """
    try:
        import fsspec
    except ImportError as error:
        raise InputError(
            url, "reading from object stores needs fsspec", "pip install 'nsys-deepprof[remote]'"
        ) from error

    def fetch(target: Path) -> None:
        try:
            with fsspec.open(url, "rb") as source:
                _copy(source, target, url)
        except (ImportError, ValueError) as error:
            raise InputError(url, f"cannot be fetched: {error}") from error

    suffix = Path(url).suffix
    if suffix in COMPRESSED_SUFFIXES or suffix in REPORT_SUFFIXES:
        raise InputError(url, f"{suffix} files are not read from object stores", "fetch it first")
    return _unpack(fetch, url, None, "cannot be fetched")


def _unpack(
    fill: Callable[[Path], None], named: str, content: Path | None, failure: str
) -> SqliteSource:
    directory = _temporary_directory(named)
    target = directory / (Path(named).name or "export")
    try:
        fill(target)
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, OSError):
            raise InputError(named, f"{failure}: {files.reason(error)}") from error
        raise
    return _open(target, named, content, directory)


def _open(target: Path, named: str, content: Path | None, directory: Path) -> SqliteSource:
    try:
        source = open_sqlite(target, named=named, content=content)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    weakref.finalize(source, shutil.rmtree, directory, ignore_errors=True)
    return source


def _copy(source: Any, target: Path, named: str) -> None:
    """Copy a stream, but never to the last of the disk: a small file can unpack to any size."""
    with target.open("wb") as out:
        while chunk := source.read(_COPY_BYTES):
            if shutil.disk_usage(target.parent).free < _FREE_BYTES:
                raise InputError(
                    named,
                    f"does not fit into {target.parent.parent} when unpacked",
                    "free some space, or set TMPDIR",
                )
            out.write(chunk)


def _temporary_directory(named: str) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="nsys-deepprof-"))
    except OSError as error:
        raise InputError(named, f"no temporary directory: {error}", "set TMPDIR") from error


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
