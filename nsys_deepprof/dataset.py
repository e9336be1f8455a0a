"""A trace as a directory: `manifest.json` and one Parquet file a table.

Written whole or not at all: into a temporary directory beside the target, then renamed. The
manifest is written last within it, so a directory without one is never taken for a dataset.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof import __version__
from nsys_deepprof.errors import InputError, OutputError
from nsys_deepprof.extract import Skip
from nsys_deepprof.trace import TABLES, Capture, TableFacts, Trace, trace_of_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.sources import SqliteSource

DATASET_VERSION = 1
SUFFIX = ".deepprof"
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Converted:
    """What `convert` did: where the dataset is, and whether it was there already."""

    path: Path
    rows: dict[str, int]
    dropped: dict[str, dict[str, int]]
    up_to_date: bool


def default_target(run: Path) -> Path:
    """`RUN` with the suffix `.deepprof`."""
    return run.with_suffix(SUFFIX)


def convert(
    run: str | Path,
    target: str | Path | None = None,
    *,
    force: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Converted:
    """Write the dataset of an export.

    An up-to-date dataset of the same content is left as it is. One of another dataset version is
    rebuilt. One that was made from other content is refused unless `force`; anything else at
    `target` is refused always. `progress(table, done, of)` is called after each table.

    Raises InputError for the source, OutputError for the target.
    """
    from nsys_deepprof import sources

    path = Path(run)
    source = sources.open_sqlite(path)
    out = Path(target) if target is not None else default_target(path)
    if out.resolve() == path.resolve():
        raise OutputError(out, "the target is the input itself", "name another with -o")
    before = path.stat()
    identity = _identity(path)
    existing = _existing(out)
    if existing is not None and not force:
        same_content = existing["source"]["fingerprint"] == identity["fingerprint"]
        if same_content and _is_current(existing):
            return Converted(out, existing["rows"], existing["dropped"], up_to_date=True)
        if not same_content:
            raise OutputError(
                out,
                f"holds a dataset of other content ({existing['source']['name']})",
                "use --force to replace it, or -o for another place",
            )
    with _replacing(out) as building:
        manifest = _write(source, str(run), building, identity, progress)
        after = path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise InputError(path, "changed while it was read", "wait until it is complete")
    return Converted(out, manifest["rows"], manifest["dropped"], up_to_date=False)


def open_dataset(path: Path) -> Trace:
    """A trace over a converted dataset.

    Raises InputError when `path` is none, is damaged, or is of another dataset version.
    """
    manifest = read_manifest(path)
    version = manifest.get("dataset_version")
    if version != DATASET_VERSION:
        raise InputError(
            path,
            f"dataset version {version}, this tool reads version {DATASET_VERSION}",
            "convert the export again",
        )
    try:
        capture = Capture(**manifest["capture"])
        facts = {name: _facts(manifest, name) for name in TABLES}
        source_name = str(manifest["source"]["name"])
    except (KeyError, TypeError) as error:
        raise InputError(path, "damaged manifest.json", "convert the export again") from error

    def load(name: str) -> tuple[pl.DataFrame, TableFacts]:
        file = path / f"{name}.parquet"
        try:
            frame = pl.read_parquet(file)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(file, "missing or damaged", "convert the export again") from error
        if frame.height != manifest["rows"][name]:
            raise InputError(file, "not the file of its manifest", "convert the export again")
        return frame, facts[name]

    return Trace(source=source_name, capture=capture, load=load)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of the dataset at `path`; InputError when there is none."""
    try:
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            path, "a directory, and not a converted dataset", "name the export itself"
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(path, "damaged manifest.json", "convert the export again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != "nsys-deepprof dataset":
        raise InputError(path, "manifest.json is not one of ours", "name the export itself")
    return manifest


def _identity(path: Path) -> dict[str, Any]:
    from nsys_deepprof import sources

    status = path.stat()
    return {
        "name": path.name,
        "bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "fingerprint": sources.fingerprint(path),
    }


def _existing(out: Path) -> dict[str, Any] | None:
    if not out.exists() and not out.is_symlink():
        return None
    try:
        return read_manifest(out)
    except InputError as error:
        raise OutputError(
            out, "exists and is not a converted dataset", "name another place with -o"
        ) from error


def _is_current(manifest: dict[str, Any]) -> bool:
    return (manifest["dataset_version"], manifest["tool_version"]) == (
        DATASET_VERSION,
        __version__,
    )


def _write(
    source: SqliteSource,
    name: str,
    building: Path,
    identity: dict[str, Any],
    progress: Callable[[str, int, int], None] | None,
) -> dict[str, Any]:
    trace = trace_of_source(source, name)
    rows: dict[str, int] = {}
    facts: dict[str, TableFacts] = {}
    for done, table in enumerate(TABLES):
        if progress is not None:
            progress(table, done, len(TABLES))
        frame = trace.table(table)
        facts[table] = trace.facts(table)
        rows[table] = frame.height
        frame.write_parquet(building / f"{table}.parquet", compression="zstd")
    manifest = {
        "format": "nsys-deepprof dataset",
        "dataset_version": DATASET_VERSION,
        "tool_version": __version__,
        "source": identity,
        "capture": asdict(trace.capture),
        "rows": rows,
        "source_rows": {t: f.source_rows for t, f in facts.items()},
        "dropped": {t: f.dropped for t, f in facts.items() if f.dropped},
        "skipped": {t: [asdict(s) for s in f.skipped] for t, f in facts.items() if f.skipped},
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    (building / _MANIFEST).write_text(text, encoding="utf-8")
    return manifest


def _facts(manifest: dict[str, Any], table: str) -> TableFacts:
    return TableFacts(
        source_rows=manifest["source_rows"][table],
        dropped=manifest["dropped"].get(table, {}),
        skipped=tuple(Skip(**s) for s in manifest["skipped"].get(table, [])),
    )


class _replacing:  # noqa: N801 - reads as a word at its one place of use
    """A new directory that takes the place of `out` when the block ends without an error."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def __enter__(self) -> Path:
        try:
            self._out.parent.mkdir(parents=True, exist_ok=True)
            made = tempfile.mkdtemp(prefix=f".{self._out.name}.", dir=self._out.parent)
        except OSError as error:
            raise _no_output(self._out, error) from error
        self._building = Path(made)
        return self._building

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            if kind is None:
                self._swap()
        except OSError as failure:
            raise _no_output(self._out, failure) from failure
        finally:
            shutil.rmtree(self._building, ignore_errors=True)
        if isinstance(error, OSError):
            raise _no_output(self._out, error) from error
        if isinstance(error, pl.exceptions.ComputeError):
            raise OutputError(self._out, f"cannot be written: {error}") from error

    def _swap(self) -> None:
        self._building.chmod(0o777 & ~_umask())
        if self._out.exists():
            # A directory cannot be renamed onto a full one: the old one steps aside first.
            aside = Path(tempfile.mkdtemp(prefix=f".{self._out.name}.", dir=self._out.parent))
            self._out.rename(aside / "old")
            self._building.rename(self._out)
            shutil.rmtree(aside, ignore_errors=True)
        else:
            self._building.rename(self._out)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _no_output(out: Path, error: OSError) -> OutputError:
    reason = (error.strerror or str(error)).lower()
    return OutputError(out, f"cannot be written: {reason}", "check space and permissions")
