"""What a rule gets and what it gives."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from nsys_deepprof.analyses.iteration_of import lane_of_gpu, position_of
from nsys_deepprof.mining.identity import pattern_id
from nsys_deepprof.names import shorten, visible
from nsys_deepprof.units import format_count, format_ns, format_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nsys_deepprof.trace import Trace

MIN_SHARE = 0.01
"""A finding costs at least this share of the analysed wall time."""

MEDIUM_SHARE = 0.03
HIGH_SHARE = 0.10
"""Where severity goes from low to medium, and from medium to high."""

LISTED_PLACES = 5
LISTED_ROWS = 5

PLACE_DTYPE = pl.Struct(
    {
        "after": pl.String(),
        "before": pl.String(),
        "nvtx": pl.String(),
        "position": pl.Int64(),
        "positions": pl.Int64(),
        "times": pl.Int64(),
        "total_ns": pl.Int64(),
    }
)
ROW_DTYPE = pl.Struct(
    {"gpu": pl.Int64(), "start_ns": pl.Int64(), "end_ns": pl.Int64(), "lost_ns": pl.Int64()}
)
ROW_FIELDS = ["gpu", "start_ns", "end_ns", "lost_ns"]

EVIDENCE: dict[str, pl.DataType] = {
    "rule": pl.String(),
    "formula": pl.String(),
    "threshold": pl.Float64(),
    "gpus": pl.List(pl.Int64()),
    "idle_ns": pl.Int64(),
    "copy_ns": pl.Int64(),
    "comm_ns": pl.Int64(),
    "median_ns": pl.Float64(),
    "max_ns": pl.Int64(),
    "iterations": pl.Int64(),
    "iterations_of": pl.Int64(),
    "api": pl.String(),
    "bytes": pl.Int64(),
    "throughput_gbps": pl.Float64(),
    "host_blocked_ns": pl.Int64(),
    "kernel_median_ns": pl.Float64(),
    "launch_interval_ns": pl.Float64(),
    "pattern": pl.String(),
    "pattern_operations": pl.Int64(),
    "places": pl.List(PLACE_DTYPE),
    "rows": pl.List(ROW_DTYPE),
}
"""Fields of `evidence`. rule, formula, threshold: the rule and the share of the wall from which it
speaks. gpus: on which. idle_ns, copy_ns: the claimed idle and exposed-copy time; comm_ns: exposed
communication. median_ns, max_ns: of the time lost at a time. iterations of iterations_of: in how
many it occurs (null without iterations). api: the call that it is about. bytes, throughput_gbps,
host_blocked_ns: of its copies. kernel_median_ns, launch_interval_ns: of kernels and their launches.
pattern, pattern_operations: the iteration on the GPU on which most is lost, and how many operations
it has. places: where most is lost; position is that of the kernel that comes next in the iteration
(from 0, as in `anatomy` of `iterations`; the one where most is lost of the `positions` different
ones that the place has there). rows: the dearest occurrences. Null: does not apply, or is not
known."""


@dataclass(frozen=True)
class Finding:
    """One cause. `cost_ns` ranks it: the time that the GPUs spend on it, all GPUs added up.

    `recoverable_ns` is the idle and exposed-copy part of that, claimed by no other finding; None
    for a cost that is neither.
    """

    kind: str
    title: str
    cost_ns: int
    recoverable_ns: int | None
    occurrences: int
    where: str
    advice: str
    evidence: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """What rules look at.

    `pieces` is the lost time that may become findings (`lost_time.SCHEMA`). `wall_ns` adds up the
    analysed windows of all GPUs. `iterations` is the number of iterations of the GPU that has the
    most; ranks count theirs alike, so iteration k of several GPUs is one. `memory_kinds` is whether
    the export tells pinned from pageable memory.
    """

    trace: Trace
    pieces: pl.DataFrame
    wall_ns: int
    compute_ns: int
    comm_ns: int
    memset_ns: int
    iterations: int
    memory_kinds: bool

    @cached_property
    def lost_ns_of_kind(self) -> dict[str, int]:
        """The idle and exposed-copy time of all pieces of each kind."""
        lost = (pl.col("idle_ns") + pl.col("copy_ns")).sum()
        return dict(self.pieces.group_by("kind").agg(lost).iter_rows())

    def of(self, *kinds: str) -> pl.DataFrame:
        """The pieces of these kinds, with `lost_ns`, their idle and exposed-copy time.

        None where all of them together are not worth a finding: they may be millions, and are
        copied here.
        """
        worth = self.matters(sum(self.lost_ns_of_kind.get(kind, 0) for kind in kinds))
        pieces = self.pieces if worth else self.pieces.clear()
        return pieces.filter(pl.col("kind").is_in(kinds)).with_columns(
            (pl.col("idle_ns") + pl.col("copy_ns")).alias("lost_ns")
        )

    def share(self, cost_ns: int) -> float:
        return cost_ns / self.wall_ns if self.wall_ns else 0.0

    def matters(self, cost_ns: int) -> bool:
        """Whether a cost is worth a finding."""
        return cost_ns > 0 and self.share(cost_ns) >= MIN_SHARE

    def cost(self, cost_ns: int) -> str:
        """The cost as words: `72.0 ms, 4.1 % of GPU time`: the windows of all GPUs added up."""
        return f"{format_ns(cost_ns)}, {format_share(self.share(cost_ns))} of GPU time"


PLACE = ["prev_op", "next_op"]

MAX_PLACES = 3
"""So many places of a rule get a finding of their own; the others make one together."""

PLACE_PART = 0.2
"""A place gets a finding of its own when this part of the rule's time is lost there: below, the
cause is everywhere."""

RECURS = 3
"""A place that occurs less often than this needs to cost `HIGH_SHARE` to get its own."""


def by_place(
    evidence: Evidence, pieces: pl.DataFrame, *, key: Sequence[str] = PLACE
) -> Iterator[tuple[pl.DataFrame, bool]]:
    """Groups of pieces that make a finding each: places that matter alone (True), dearest first,
    then all other places together (False), if those matter."""
    if pieces.height == 0:
        return
    totals = (
        pieces.group_by(key, maintain_order=True)
        .agg(
            pl.col("lost_ns").sum().alias("total"),
            pl.struct("gpu", "event_ns").n_unique().alias("times"),
        )
        .sort("total", descending=True, maintain_order=True)
        .with_row_index("place")
    )
    share = pl.col("total") / evidence.wall_ns
    recurs = (pl.col("times") >= RECURS) & (share >= MIN_SHARE)
    weighty = pl.col("total") >= PLACE_PART * pl.col("total").sum()
    alone = totals.filter((recurs & weighty) | (share >= HIGH_SHARE)).head(MAX_PLACES)["place"]
    placed = pieces.join(
        totals.select(*key, "place"), on=key, how="left", nulls_equal=True, maintain_order="left"
    )
    for place in alone:
        yield placed.filter(pl.col("place") == place).drop("place"), True
    rest = placed.filter(~pl.col("place").is_in(alone.implode())).drop("place")
    if evidence.matters(int(rest["lost_ns"].sum())):
        yield rest, False


def events(pieces: pl.DataFrame) -> pl.DataFrame:
    """What the pieces are about, one row each with its `lost_ns`: a copy and the gap behind it are
    one event."""
    return pieces.group_by("gpu", "event_ns", maintain_order=True).agg(pl.col("lost_ns").sum())


def finding(
    evidence: Evidence,
    pieces: pl.DataFrame,
    *,
    kind: str,
    title: str,
    advice: str,
    formula: str,
    one_place: bool,
    **more: object,
) -> Finding:
    """A finding that claims `pieces`; `more` are further fields of `EVIDENCE`."""
    lost = int(pieces["lost_ns"].sum())
    per_event = events(pieces)["lost_ns"]
    top = places(pieces.with_columns(position_of(evidence.trace, pieces["gpu"], pieces["end_ns"])))
    pattern, operations = _pattern(evidence, pieces)
    facts: dict[str, object] = {
        "rule": kind,
        "formula": formula,
        "threshold": MIN_SHARE,
        "gpus": pieces["gpu"].unique().sort().to_list(),
        "idle_ns": int(pieces["idle_ns"].sum()),
        "copy_ns": int(pieces["copy_ns"].sum()),
        "median_ns": per_event.median(),
        "max_ns": per_event.max(),
        "iterations": in_iterations(pieces) if evidence.iterations else None,
        "iterations_of": evidence.iterations or None,
        "pattern": pattern,
        "pattern_operations": operations,
        "places": top,
        "rows": top_rows(pieces),
        **more,
    }
    return Finding(
        kind=kind,
        title=title,
        cost_ns=lost,
        recoverable_ns=lost,
        occurrences=len(per_event),
        where=where(top, lost, one_place=one_place),
        advice=advice,
        evidence=facts,
    )


def _pattern(evidence: Evidence, pieces: pl.DataFrame) -> tuple[str | None, int | None]:
    totals = pieces.group_by("gpu").agg(pl.col("lost_ns").sum()).sort("lost_ns", "gpu")
    found = lane_of_gpu(evidence.trace).get(totals["gpu"][-1])
    if found is None:
        return None, None
    lane, turns = found
    return pattern_id(turns.body, lane.sequence.names), len(turns.body)


def top_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The dearest rows (columns gpu, start_ns, end_ns, lost_ns), as `ROW_DTYPE`."""
    dearest_first = rows.sort("lost_ns", descending=True, maintain_order=True)
    return dearest_first.head(LISTED_ROWS).select(ROW_FIELDS).to_dicts()


def in_iterations(pieces: pl.DataFrame) -> int:
    """In how many iterations the pieces occur, on any GPU."""
    return pieces["iteration"].drop_nulls().n_unique()


FEW = 3
"""So many times that hold `MOST` of a finding are said: it is about them, not about all."""

MOST = 0.9


def how_often(evidence: Evidence, pieces: pl.DataFrame) -> str:
    """`60 times, in each of 60 iterations`; without iterations, `60 times`. Where few of them hold
    most of the time: `8 times (2 hold 99.9 %)`."""
    each = events(pieces)["lost_ns"]
    count = len(each)
    times = "once" if count == 1 else f"{format_count(count)} times"
    held = each.top_k(min(FEW, count)).sort(descending=True).cum_sum() / max(each.sum(), 1)
    few = int((held < MOST).sum()) + 1
    if 2 * few < count and few <= FEW:
        times += f" ({few} {'holds' if few == 1 else 'hold'} {format_share(held[few - 1])})"
    inside = in_iterations(pieces)
    if not evidence.iterations:
        return times
    if inside == 0:
        return f"{times}, outside of the iterations"
    if inside == evidence.iterations:
        return f"{times}, in each of {format_count(inside)} iterations"
    return f"{times}, in {format_count(inside)} of {format_count(evidence.iterations)} iterations"


def places(pieces: pl.DataFrame) -> list[dict[str, object]]:
    """The places where most is lost, as `PLACE_DTYPE`; `pieces` has `position`, too."""
    top = (
        pieces.group_by(PLACE, maintain_order=True)
        .agg(pl.col("lost_ns").sum().alias("total_ns"))
        .sort("total_ns", descending=True, maintain_order=True)
        .head(LISTED_PLACES)
        .with_row_index("place")
    )
    mine = pieces.join(top, on=PLACE, how="inner", nulls_equal=True)
    found: list[dict[str, object]] = []
    for row in top.iter_rows(named=True):
        here = mine.filter(pl.col("place") == row["place"])
        inside = here.filter(pl.col("position").is_not_null())
        at = dearest(inside, "position")
        found.append(
            {
                "after": _text(row["prev_op"]),
                "before": _text(row["next_op"]),
                "nvtx": _common_range(here),
                "position": None if at is None else int(at),
                "positions": inside["position"].n_unique(),
                "times": events(here).height,
                "total_ns": row["total_ns"],
            }
        )
    return found


def where(top: list[dict[str, object]], lost_ns: int, *, one_place: bool) -> str:
    """The place in words; of several, the one where most is lost, and its share."""
    first, *others = top
    words = place_words(first)
    if one_place or not others or not lost_ns:
        return words
    part = first["total_ns"]
    assert isinstance(part, int)
    return f"{format_share(part / lost_ns)} of it {words}"


def place_words(place: dict[str, object]) -> str:
    """`after `X`, before `Y`, in `Z``."""
    parts = [
        f"{word} {quoted(str(place[key]))}"
        for word, key in (("after", "after"), ("before", "before"), ("in", "nvtx"))
        if place[key] is not None
    ]
    return ", ".join(parts)


NAME_WIDTH = 60


def quoted(name: str) -> str:
    """A name for a sentence: short, printable, between backticks, and without any of its own."""
    short = shorten(visible(name), NAME_WIDTH).replace("`", "'")
    return f"`{short}`"


# PyTorch numbers its ranges, and modules are numbered: what a reader looks for is what returns.
_ARGUMENTS = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = .*$")
_DIGITS = re.compile(r"\d+")


def _common_range(pieces: pl.DataFrame) -> str | None:
    """The NVTX range in which most is lost, without the numbers that make each occurrence another
    (`#` stands for numbers that differ)."""
    lost: Counter[str] = Counter()
    texts: dict[str, set[str]] = {}
    totals = (
        pieces.filter(pl.col("nvtx").is_not_null())
        .group_by("nvtx", maintain_order=True)
        .agg(pl.col("lost_ns").sum())
    )
    for name, lost_ns in totals.iter_rows():
        text = _ARGUMENTS.sub("", name)
        pattern = _DIGITS.sub("#", text)
        lost[pattern] += lost_ns
        texts.setdefault(pattern, set()).add(text)
    if not lost:
        return None
    pattern = max(lost, key=lambda p: lost[p])
    return texts[pattern].pop() if len(texts[pattern]) == 1 else pattern


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def dearest(names: pl.DataFrame, column: str) -> str | None:
    """The value of `column` on which most is lost; None where it is null throughout."""
    known = names.filter(pl.col(column).is_not_null())
    if known.height == 0:
        return None
    totals = known.group_by(column, maintain_order=True).agg(pl.col("lost_ns").sum())
    top = totals.sort("lost_ns", descending=True, maintain_order=True)[column]
    return str(top.cast(pl.String)[0])


def per_time(pieces: pl.DataFrame) -> str:
    """What one occurrence costs: `1.20 ms a time`, or `up to 35.0 ms a time` where that differs."""
    each = events(pieces)["lost_ns"]
    median, most = each.median(), each.max()
    assert isinstance(median, int | float)
    assert isinstance(most, int | float)
    return f"up to {format_ns(most)} a time" if most > 3 * median else f"{format_ns(median)} a time"


def joined(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = list(words)
    return f"{', '.join(first)} and {last}" if first else last
