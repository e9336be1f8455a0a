"""What is known of one run of a batch: its identity, and how it went.

A run's identity comes from its content and its path, never from its name alone: two files named
`report1.sqlite` are two runs, and equal content under two paths is two runs marked as the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsys_deepprof import __version__, sources
from nsys_deepprof.atomic import new_file
from nsys_deepprof.dataset import DATASET_VERSION, read_manifest
from nsys_deepprof.replacing import replacing
from nsys_deepprof.rules import RULES_VERSION
from nsys_deepprof.sources.unpacked import is_url

if TYPE_CHECKING:
    from collections.abc import Iterable

RESULTS_VERSION = 1
"""Of the files in a run's `results/` and of `status.json`; another one makes a run be redone."""

OK, EMPTY, FAILED = "ok", "empty", "failed"
NO_GPU_ACTIVITY = "no_gpu_activity"

RUNS = "runs"
UNLISTED = "unlisted"

MANIFEST = "manifest.json"
_FILE = "status.json"


@dataclass(frozen=True)
class RunIdentity:
    """A run: its number among all runs, and what was read.

    `fingerprint` is a digest of the content, the same for an export and a dataset made of it;
    None where the input could not be read.
    """

    run_id: str
    path: str
    fingerprint: str | None
    size_bytes: int | None


@dataclass(frozen=True)
class RunStatus:
    """How a run went; `status.json` in its directory.

    `status` is 'ok', 'empty' (it was read, and holds no GPU work: `reason` is 'no_gpu_activity')
    or 'failed' (`reason` says why). `transient`: another try may end otherwise, so it is made.
    `metrics` are its headline figures; there are none for a failed run.
    """

    identity: RunIdentity
    status: str
    reason: str | None = None
    transient: bool = False
    versions: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ListedRun:
    """A run of a batch and its tags. Its status is without metrics and warnings."""

    status: RunStatus
    tags: dict[str, str]


def identify(path: str) -> RunIdentity:
    """The identity of the run at `path`; reads the whole file."""
    run = Path(path)
    if is_dataset(run):
        source = read_manifest(run)["source"]
        return _identity(path, source["fingerprint"], source["bytes"])
    if is_url(path) or run.is_dir():
        found = sources.open_source(path).identity()
        return _identity(path, found.fingerprint, found.bytes)
    return _identity(path, sources.fingerprint(run), run.stat().st_size)


def is_dataset(run: Path) -> bool:
    """Whether a path is a converted dataset."""
    return (run / MANIFEST).is_file()


def unread(path: str) -> RunIdentity:
    """The identity of a run whose content could not be read: from its path alone."""
    return _identity(path, None, None)


def versions() -> dict[str, Any]:
    """Versions that a result depends on: a run done under other ones is done again."""
    return {
        "tool": __version__,
        "dataset": DATASET_VERSION,
        "rules": RULES_VERSION,
        "results": RESULTS_VERSION,
    }


def is_done(status: RunStatus | None) -> bool:
    """Whether a run need not be done again."""
    return status is not None and not status.transient and status.versions == versions()


def run_home(out: Path, run_id: str) -> Path:
    """The directory of a run in the batch directory `out`."""
    return out / RUNS / run_id


def record_failure(identity: RunIdentity, out: Path, reason: str, *, transient: bool) -> RunStatus:
    """Write down in `out` that a run failed, in the place of what it left before.

    Raises OutputError where that cannot be written.
    """
    status = RunStatus(identity, FAILED, reason, transient=transient, versions=versions())
    with replacing(run_home(out, identity.run_id), check=lambda: None) as building:
        write_status(building, status)
    return status


def write_status(home: Path, status: RunStatus) -> None:
    """Put `status` into the run's directory `home`, whole or not at all."""
    text = json.dumps(asdict(status), indent=1, sort_keys=True, allow_nan=False)
    with new_file(home / _FILE) as file:
        file.write_text(text + "\n", encoding="utf-8")


def read_status(home: Path) -> RunStatus | None:
    """The status in the run's directory `home`; None where there is none, or of another form."""
    try:
        return status_of(json.loads((home / _FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def status_of(values: dict[str, Any]) -> RunStatus:
    """A `RunStatus` from its JSON form."""
    known = _only(fields(RunStatus), values)
    known["identity"] = RunIdentity(**_only(fields(RunIdentity), values["identity"]))
    known["warnings"] = tuple(known["warnings"])
    return RunStatus(**known)


def _only(wanted: Iterable[Any], values: dict[str, Any]) -> dict[str, Any]:
    return {f.name: values[f.name] for f in wanted}


def _identity(path: str, fingerprint: str | None, size_bytes: int | None) -> RunIdentity:
    text = (fingerprint or "").encode() + b"\0" + os.fsencode(path)
    run_id = hashlib.blake2b(text, digest_size=8).hexdigest()
    # A name that is not UTF-8 would fit neither JSON nor SQLite.
    shown = os.fsencode(path).decode("utf-8", "replace")
    return RunIdentity(run_id, shown, fingerprint, size_bytes)
