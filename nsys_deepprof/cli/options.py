"""Choices that the command line offers."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Ways to write rows."""

    TABLE = "table"
    MD = "md"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
