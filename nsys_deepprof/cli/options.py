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


class Symbols(StrEnum):
    """What makes two operations equal: names, names with launch shape, or names without what
    differs from build to build."""

    NAMES = "names"
    SHAPES = "shapes"
    SIGNATURES = "signatures"
