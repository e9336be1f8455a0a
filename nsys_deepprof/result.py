"""What an analysis returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Result:
    """An answer: `frame` holds the rows, with the columns that the contract names.

    `extra` are further keys of the JSON object: plain values, lists, dicts or frames.
    `notes` say what bounds the answer: what was left out, what could not be computed, and why.
    """

    command: str
    frame: pl.DataFrame
    extra: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        from nsys_deepprof.reports.inline import result_html

        return result_html(self)
