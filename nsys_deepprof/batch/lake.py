"""A run's results as Parquet files that scan together: `runs/*/results/gaps.parquet`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

if TYPE_CHECKING:
    from pathlib import Path


def write_results(folder: Path, run_id: str, frames: dict[str, pl.DataFrame]) -> None:
    """Write each frame as `NAME.parquet` into `folder`, with the run's id as first column.

    Dictionary columns are written as text, so that files scan together whatever their words are.
    """
    folder.mkdir()
    for name, frame in frames.items():
        texts = frame.with_columns((cs.categorical() | cs.enum()).cast(pl.String))
        rows = texts.select(pl.lit(run_id).alias("run_id"), pl.all())
        rows.write_parquet(folder / f"{name}.parquet", compression="zstd")
