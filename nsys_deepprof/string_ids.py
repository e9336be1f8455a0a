"""StringIds: looking up the texts of whole columns of ids at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

_DENSE = 4
"""Up to this many numbers for each id, a plain array of positions is the quickest way."""


@dataclass(frozen=True)
class StringIds:
    """Texts by id. Make it with `string_ids`.

    `texts` ends with a null, to which every unknown id leads. `position` is the place of each id
    from `first` on in `texts`; None where ids are far apart, and then `ids` (sorted) is searched.
    """

    ids: npt.NDArray[np.int64]
    texts: pl.Series
    first: int
    position: npt.NDArray[np.int64] | None


def string_ids(ids: pl.Series, texts: pl.Series) -> StringIds:
    """The texts (String) of `ids` (Int64); where an id occurs twice, the last one holds."""
    frame = (
        pl.DataFrame({"id": ids, "text": texts})
        .drop_nulls("id")
        .unique("id", keep="last", maintain_order=True)
        .sort("id")
    )
    known = frame["id"].to_numpy()
    words = frame["text"].cast(pl.Categorical).extend_constant(None, 1)
    count = len(known)
    first, last = (int(known[0]), int(known[-1])) if count else (0, -1)
    if last - first >= _DENSE * count + 1024:
        return StringIds(known, words, first, None)
    position = np.full(last - first + 1, count, dtype=np.int64)
    position[known - first] = np.arange(count)
    return StringIds(known, words, first, position)


def lookup(table: StringIds, ids: pl.Series) -> pl.Series:
    """The text (Categorical) of every id; `<unknown:ID>` where there is none, null for null."""
    wanted = ids.fill_null(0).to_numpy()
    unknown = len(table.ids)
    if table.position is None:
        found = np.searchsorted(table.ids, wanted)
        hit = table.ids[np.minimum(found, unknown - 1)] == wanted
        places = np.where(hit, found, unknown)
    else:
        last = table.first + len(table.position) - 1
        inside = (wanted >= table.first) & (wanted <= last)
        places = np.full(len(wanted), unknown, dtype=np.int64)
        places[inside] = table.position[wanted[inside] - table.first]
    if ids.null_count():
        places[ids.is_null().to_numpy()] = unknown
    texts = table.texts.gather(places)
    if texts.null_count() > ids.null_count():
        lost = texts.is_null() & ids.is_not_null()
        named = ("<unknown:" + ids.filter(lost).cast(pl.String) + ">").cast(pl.Categorical)
        texts = texts.scatter(lost.arg_true(), named)
    return texts.alias(ids.name)
