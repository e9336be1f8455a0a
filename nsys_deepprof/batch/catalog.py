"""The catalogue: one SQLite file over all runs of a batch, documented within, for any SQL tool."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import polars as pl
from sqlite_utils import Database

from nsys_deepprof.atomic import new_file
from nsys_deepprof.batch import status as state
from nsys_deepprof.batch.catalog_columns import TABLE_MEANINGS, TABLES, VIEWS
from nsys_deepprof.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from nsys_deepprof.batch.status import ListedRun

_AT_ONCE = 200


def write_catalog(file: Path, out: Path, runs: Sequence[ListedRun]) -> None:
    """Write the catalogue of `runs`, whose directories are in `out`, whole or not at all.

    Made of the runs' own files, a few hundred at a time, so its bytes depend on nothing but them
    and the order of `runs`. Raises OutputError where it cannot be written.
    """
    try:
        with new_file(file) as building:
            _fill(building, out, runs)
    except sqlite3.Error as error:
        raise OutputError(file, f"cannot be written: {error}", "check space") from error


def _fill(file: Path, out: Path, runs: Sequence[ListedRun]) -> None:
    # Typed loosely: `database[name]` may be a table or a view to the checker.
    database: Any = Database(file)
    for name, columns in TABLES.items():
        types = {column: about.type for column, about in columns.items()}
        database[name].create(types, pk="run_id" if name == "runs" else None)
    firsts: dict[str, str] = {}
    for begin in range(0, len(runs), _AT_ONCE):
        chunk = runs[begin : begin + _AT_ONCE]
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        for position, run in enumerate(chunk, begin):
            _add_run(rows, out, run, position, firsts)
        for name in TABLES:
            # sqlite-utils stops at 999 values a statement; executemany has no such bound.
            _insert(database, name, rows[name])
    _insert(database, "columns", list(_documentation()))
    for name, (_, sql) in VIEWS.items():
        database.create_view(name, dedent(sql).strip())
    for table in ("gpus", "patterns", "findings", "tags"):
        database[table].create_index(["run_id"])
    database.conn.commit()
    database.conn.execute("VACUUM")
    database.close()


def _insert(database: Any, name: str, rows: list[dict[str, Any]]) -> None:
    columns = list(TABLES[name])
    database[name].insert_all(
        ({c: row.get(c) for c in columns} for row in rows), batch_size=_AT_ONCE
    )


def _add_run(
    rows: dict[str, list[dict[str, Any]]],
    out: Path,
    run: ListedRun,
    position: int,
    firsts: dict[str, str],
) -> None:
    identity = run.status.identity
    run_id = identity.run_id
    home = state.run_home(out, run_id)
    full = state.read_status(home)
    if full is None:
        raise OutputError(home, "its status.json has gone", "run the batch again")
    first = run_id
    if identity.fingerprint is not None:
        first = firsts.setdefault(identity.fingerprint, run_id)
    failed = full.status == state.FAILED
    start_ns = full.metrics.get("capture_start_utc_ns")
    own_dataset = (home / "dataset").is_dir()
    rows["runs"].append(
        {
            **full.metrics,
            "run_id": run_id,
            "position": position,
            "path": identity.path,
            "fingerprint": identity.fingerprint,
            "size_bytes": identity.size_bytes,
            "same_content_as": None if first == run_id else first,
            "capture_start_utc": None if start_ns is None else utc_text(start_ns),
            "status": full.status,
            "error": full.reason if failed else None,
            "warnings": json.dumps(full.warnings, ensure_ascii=False),
            "tags": json.dumps(run.tags, ensure_ascii=False),
            "dataset": f"runs/{run_id}/dataset" if own_dataset else identity.path,
            "report": f"runs/{run_id}/report.html",
        }
        | (dict.fromkeys(("dataset", "report", "warnings")) if failed else {})
    )
    rows["tags"] += [{"run_id": run_id, "key": k, "value": v} for k, v in run.tags.items()]
    if not failed:
        for table in ("gpus", "patterns", "findings"):
            rows[table] += [{"run_id": run_id} | row for row in _result_rows(home, table)]


def _result_rows(home: Path, table: str) -> list[dict[str, Any]]:
    file = home / "results" / f"{table}.parquet"
    frame = pl.read_parquet(file)
    if table == "findings":
        frame = frame.with_row_index("rank", offset=1)
        frame = frame.with_columns(_json_text(frame["evidence"]))
    if table == "gpus":
        share = pl.when(pl.col("window_ns") > 0)
        frame = frame.with_columns(
            share.then(pl.col(f"{part}_ns") / pl.col("window_ns")).alias(f"{part}_share")
            for part in ("copy", "idle")
        )
    return frame.select(column for column in TABLES[table] if column != "run_id").to_dicts()


def _json_text(column: pl.Series) -> pl.Series:
    """Structs as JSON text, without what they do not tell."""
    texts = [
        json.dumps({k: v for k, v in row.items() if v is not None}, ensure_ascii=False)
        for row in column
    ]
    return pl.Series(column.name, texts, dtype=pl.String)


def utc_text(time_ns: int) -> str:
    """A time in ns since 1970 as ISO 8601 text with milliseconds."""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def _documentation() -> Iterator[dict[str, Any]]:
    for table, columns in TABLES.items():
        yield {"table": table, "column": None, "meaning": TABLE_MEANINGS[table]}
        for column, about in columns.items():
            yield {"table": table, "column": column, "meaning": about.meaning}
    for view, (meaning, _) in VIEWS.items():
        yield {"table": view, "column": None, "meaning": meaning}
