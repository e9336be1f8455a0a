"""A trace as a directory: `manifest.json` and one Parquet file a table.

Written whole or not at all: into a temporary directory beside the target, then renamed. The
manifest is written last within it, so a directory without one is never taken for a dataset.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof import __version__, derived, extract
from nsys_deepprof.errors import InputError, OutputError
from nsys_deepprof.extract import Skip
from nsys_deepprof.queries import load_query
from nsys_deepprof.replacing import replacing
from nsys_deepprof.sorted_parquet import rewrite, write_sorted
from nsys_deepprof.trace import (
    EVENT_TABLES,
    TABLES,
    Capture,
    TableFacts,
    Trace,
    read_capture,
    table_facts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nsys_deepprof.sources import Source
    from nsys_deepprof.sources.files import Identity

DATASET_VERSION = 2
SUFFIX = ".deepprof"
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Converted:
    """What `convert` did: where the dataset is, and whether it was there already."""

    path: Path
    rows: dict[str, int]
    dropped: dict[str, dict[str, int]]
    up_to_date: bool


def default_target(run: str | Path) -> Path:
    """`RUN` with the suffix `.deepprof` in place of its own; in this directory for a URL."""
    path = Path(str(run).rsplit("/", 1)[-1]) if "://" in str(run) else Path(run)
    if path.suffix in (".gz", ".zst"):
        path = path.with_suffix("")
    return path.with_suffix(SUFFIX)


def convert(
    run: str | Path,
    target: str | Path | None = None,
    *,
    force: bool = False,
    nsys: str | None = None,
    message: Callable[[str], None] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Converted:
    """Write the dataset of an export, in memory that does not grow with it.

    An up-to-date dataset of the same content is left as it is. One of another dataset version is
    rebuilt. One that was made from other content is refused unless `force`; anything else at
    `target` is refused always. `nsys` and `message` are those of `sources.open_source`.
    `progress(table, done, of)` is called as rows of a table are done, of about so many in all.

    Raises InputError for the source, OutputError for the target.
    """
    from nsys_deepprof import sources

    source = sources.open_source(run, nsys=nsys, message=message)
    out = Path(target) if target is not None else default_target(run)
    if os.path.realpath(out) == os.path.realpath(run):
        raise OutputError(out, "the target is the input itself", "name another with -o")
    if not _is_utf8(out):
        raise OutputError(out, "a Parquet file needs a path in UTF-8", "name another with -o")
    with ThreadPoolExecutor(1) as pool:
        # All bytes are read once more for their digest: beside the conversion, not before it.
        identity = pool.submit(source.identity)
        if os.path.lexists(out):
            found = _up_to_date(out, identity.result(), force=force)
            if found is not None:
                return found
        with replacing(out, check=lambda: _up_to_date(out, identity.result(), force=force)) as new:
            manifest = _write(source, new, progress)
            manifest["source"] = asdict(identity.result())
            source.check_unchanged()
            text = json.dumps(manifest, indent=1, ensure_ascii=False)
            (new / _MANIFEST).write_text(text, encoding="utf-8")
    return Converted(out, manifest["rows"], manifest["dropped"], up_to_date=False)


def is_dataset(path: Path) -> bool:
    """Whether `path` is a directory with a manifest, sound or not."""
    return os.path.lexists(path / _MANIFEST)


def open_dataset(path: Path) -> Trace:
    """A trace over a converted dataset.

    Raises InputError when `path` is none, is damaged, or is of another dataset version.
    """
    if not _is_utf8(path):
        raise InputError(path, "a Parquet file needs a path in UTF-8", "rename it")
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


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


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


def _up_to_date(out: Path, identity: Identity, *, force: bool) -> Converted | None:
    """The dataset at `out` where it is of this content and version; None where it may go.

    Raises OutputError where it must not be replaced.
    """
    try:
        manifest = read_manifest(out)
        content = manifest["source"]["fingerprint"], manifest["source"]["name"]
    except (InputError, KeyError, TypeError) as error:
        raise OutputError(
            out, "exists and is not a converted dataset", "name another place with -o"
        ) from error
    if force:
        return None
    if content[0] != identity.fingerprint:
        raise OutputError(
            out,
            f"holds a dataset of other content ({content[1]})",
            "use --force to replace it, or -o for another place",
        )
    made_by = manifest.get("dataset_version"), manifest.get("tool_version")
    if made_by != (DATASET_VERSION, __version__):
        return None
    return Converted(out, manifest["rows"], manifest["dropped"], up_to_date=True)


def _write(
    source: Source,
    building: Path,
    progress: Callable[[str, int, int], None] | None,
) -> dict[str, Any]:
    """Write every table into `building`; the manifest but for the source's identity."""

    def file(table: str) -> Path:
        return building / f"{table}.parquet"

    def scan(table: str) -> pl.LazyFrame:
        return pl.scan_parquet(file(table))

    strings, no_strings = extract.read_strings(source)
    tallies = {table: extract.Tally() for table in EVENT_TABLES}
    tallies["kernels"].skipped += no_strings
    rows: dict[str, int] = {}
    report = _row_counter(source, progress)
    for table, tally in tallies.items():
        pieces = report(table, extract.event_pieces(source, table, strings, tally))
        schema, key = extract.event_schema(table), extract.sort_key(table)
        rows[table] = write_sorted(pieces, file(table), schema, key)
    for table, tally in tallies.items():
        finish = derived.finisher(table, scan)
        if finish is not None:
            left = rewrite(file(table), finish)
            tally.dropped["no_device"] += rows[table] - left
            rows[table] = left
    facts = {table: table_facts(tally) for table, tally in tallies.items()}
    for table in derived.DESCRIPTIONS:
        frame, skipped = derived.describe(table, source, strings, scan)
        rows[table] = write_sorted([frame], file(table), frame.schema, None)
        facts[table] = TableFacts(frame.height, {}, tuple(skipped))
    return {
        "format": "nsys-deepprof dataset",
        "dataset_version": DATASET_VERSION,
        "tool_version": __version__,
        "capture": asdict(read_capture(source)),
        "rows": rows,
        "source_rows": {t: f.source_rows for t, f in facts.items()},
        "dropped": {t: f.dropped for t, f in facts.items() if f.dropped},
        "skipped": {t: [asdict(s) for s in f.skipped] for t, f in facts.items() if f.skipped},
    }


def _row_counter(
    source: Source, progress: Callable[[str, int, int], None] | None
) -> Callable[[str, Iterator[pl.DataFrame]], Iterator[pl.DataFrame]]:
    """A wrapper for the pieces of a table that tells `progress` of every piece."""
    if progress is None:
        return lambda _, pieces: pieces
    queries = [load_query(q) for table in EVENT_TABLES for q in extract.EVENT_QUERIES[table]]
    of = sum(source.rows_at_most(q.table) for q in queries if q.table in source.tables)
    done = 0

    def counted(table: str, pieces: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        nonlocal done
        progress(table, done, of)
        for piece in pieces:
            yield piece
            done += piece.height
            progress(table, done, of)

    return counted


def _facts(manifest: dict[str, Any], table: str) -> TableFacts:
    return TableFacts(
        source_rows=manifest["source_rows"][table],
        dropped=manifest["dropped"].get(table, {}),
        skipped=tuple(Skip(**s) for s in manifest["skipped"].get(table, [])),
    )
