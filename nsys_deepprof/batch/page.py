"""What the page of trends shows, from the catalogue and the results that a batch has written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import polars as pl
from sqlite_utils import Database

from nsys_deepprof.batch import status as state
from nsys_deepprof.batch.catalog_columns import TABLES
from nsys_deepprof.batch.trend import Work, find_works

if TYPE_CHECKING:
    from pathlib import Path

_KINDS = """
    SELECT f.kind, count(DISTINCT f.run_id) AS runs, count(*) AS findings,
           sum(f.recoverable_ns) AS recoverable_ns, max(f.recoverable_share) AS worst_share,
           f.title, runs.report
    FROM findings AS f JOIN runs USING (run_id)
    GROUP BY f.kind ORDER BY sum(f.recoverable_ns) DESC, f.kind
"""
# SQLite gives the other columns of a group with one max() from the row that has it.

_KEPT_LOOPS = 64


@dataclass(frozen=True)
class ArchivePage:
    """What the page shows: the `runs` table with `tag_words`, the works, findings by kind."""

    name: str
    runs: pl.DataFrame
    works: list[Work]
    kinds: pl.DataFrame


def archive_page(out: Path, catalog: Path) -> ArchivePage:
    """The page's content, from the catalogue and the anatomies in the runs' results."""
    database: Any = Database(catalog)
    runs, gpus = (_table(database, name) for name in ("runs", "gpus"))
    kinds = pl.DataFrame(
        list(database.query(_KINDS)),
        schema={
            "kind": pl.String,
            "runs": pl.Int64,
            "findings": pl.Int64,
            "recoverable_ns": pl.Int64,
            "worst_share": pl.Float64,
            "title": pl.String,
            "report": pl.String,
        },
    )
    database.close()

    @lru_cache(maxsize=_KEPT_LOOPS)
    def anatomy(run_id: str, lane: str) -> pl.DataFrame:
        file = state.run_home(out, run_id) / "results" / "anatomy.parquet"
        return pl.read_parquet(file).filter(pl.col("lane") == lane)

    words = [" ".join(f"{k}={v}" for k, v in json.loads(text).items()) for text in runs["tags"]]
    return ArchivePage(
        name=_common_folder(runs["path"].to_list()),
        runs=runs.with_columns(pl.Series("tag_words", words, pl.String)),
        works=find_works(runs, gpus, anatomy),
        kinds=kinds,
    )


def _common_folder(paths: list[str]) -> str:
    """The folder that holds all runs: the page is the same wherever it is written."""
    levels = zip(*(path.split("/")[:-1] for path in paths), strict=False)
    shared = [names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels)]
    return shared[-1] if shared and shared[-1] else "runs"


def _table(database: Any, name: str) -> pl.DataFrame:
    types = {int: pl.Int64, float: pl.Float64, str: pl.String}
    schema = {column: types[about.type] for column, about in TABLES[name].items()}
    return pl.DataFrame(list(database[name].rows), schema=schema)
