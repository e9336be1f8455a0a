"""What changed between two runs, per iteration of the same work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from nsys_deepprof.analyses import diff_kernels, diff_rows
from nsys_deepprof.analyses.compared_lanes import compare_lanes, pair_gpus, pair_lanes
from nsys_deepprof.analyses.gpu_state import STATE_COLUMNS
from nsys_deepprof.analyses.occurrences import occurrences, periods_ns
from nsys_deepprof.comparison.resampling import Difference, compare_durations
from nsys_deepprof.device import device_ops
from nsys_deepprof.result import Result
from nsys_deepprof.signatures import signature
from nsys_deepprof.units import format_ns
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsys_deepprof.analyses.compared_lanes import Compared
    from nsys_deepprof.analyses.occurrences import Occurrences
    from nsys_deepprof.trace import Trace

PART_SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "part": pl.String(),
    "a_ns": pl.Float64(),
    "b_ns": pl.Float64(),
    "delta_ns": pl.Float64(),
    "delta_share": pl.Float64(),
    "wall_share": pl.Float64(),
}
PARTS = {"wall_ns": "wall", "kernel_ns": "GPU work"} | {
    column: column.removesuffix("_ns") for column in STATE_COLUMNS
}
"""Columns of `Occurrences.turns` and what they are called in `parts`."""

SIMILAR_TIME_SHARE = 0.95
"""Of the lanes with nearly the most iteration time the one on the first GPU stands for the run."""

MEASURED_PLACES = 64
MEASURED_TIMES = 200_000
"""An iteration's time is measured from so many of its places, fewer for very many iterations."""

NEIGHBOUR_PLACES = 3
SUMMARY_STRETCHES = 3


@dataclass(frozen=True)
class LaneDiff:
    """One pair of lanes: what was compared, and what came of it."""

    compared: Compared
    a: Occurrences
    b: Occurrences
    difference: Difference
    cut_low: float | None
    cut_high: float | None


def diff(a: Trace, b: Trace, *, seed: int = 0) -> Result:
    """Compare run B with run A.

    Rows, largest change first, are those of `diff_rows.change_rows` for the lane with the most
    iteration time, the iterations of both runs cut at the same place; where the runs have no work
    in common that repeats, those of `diff_kernels.kernel_totals`. Device sets that differ are
    said first, and only GPUs of both runs are compared.

    Where a cycle is cut decides in which iteration a long wait falls, so the time of an iteration
    is measured from up to 64 places of it, each to the same place of the next iteration: the
    medians are over all of these times, and do not depend on the cut.

    Extra keys: `iteration`: `a_median_ns`, `b_median_ns`, `delta_share`, `ci_low`, `ci_high` (of
    delta_share), `confidence`, `p_value`, `verdict`, `reason`, `a_count`, `b_count` (iterations
    compared: all but the last, which has no successor), `cut_low`, `cut_high` (the least and the
    largest delta_share over the places), `a_cut_median_ns`, `b_cut_median_ns` (at the one cut of
    the rows, where `iterations` cuts run A), `basis` ('iteration',
    'loop', 'kernels' or 'identical'), `gpu`; `lanes`: the same for every pair of lanes, each
    interval at a confidence for all of them together; `parts`: medians per iteration of wall time,
    GPU work (summed kernel time) and the GPU's states; `kernels`, `new`, `vanished`: kernels by
    name; `devices`: `a`, `b`, `same`; `identical`; `summary`: sentences. `seed` is that of the
    resampling.
    """
    gpus_a, gpus_b = _gpus(a), _gpus(b)
    pairs = pair_gpus(gpus_a, gpus_b)
    identical = _identical(a, b)
    notes = _device_notes(gpus_a, gpus_b, pairs)
    kernels = diff_kernels.kernel_totals(
        a, b, a_gpus=[p[0] for p in pairs], b_gpus=[p[1] for p in pairs]
    )
    lanes, lane_notes = _compared(a, b, pairs, seed)
    main = _main(lanes)
    if identical and kernels.height:
        notes.append("The GPU work of the two runs is identical.")
    else:
        notes += lane_notes
    if main is None:
        rows = kernels
        if kernels.height and not identical:
            notes.append(
                "No work that repeats in both runs: kernels are compared by their totals over the "
                "captures, whatever their lengths; a_call_ns and b_call_ns are medians per call."
            )
    else:
        rows = diff_rows.change_rows(main.compared, main.a, main.b, comm_patterns=a.comm_patterns)
    iteration = _iteration(main, identical=identical, empty=not (gpus_a and gpus_b))
    extra: dict[str, Any] = {
        "iteration": iteration,
        "lanes": [_iteration(lane, identical=identical, empty=False) for lane in lanes],
        "parts": pl.concat([_parts(lane) for lane in lanes])
        if lanes
        else pl.DataFrame(schema=PART_SCHEMA),
        "kernels": kernels,
        "new": kernels.filter(pl.col("change") == "new"),
        "vanished": kernels.filter(pl.col("change") == "vanished"),
        "devices": {"a": gpus_a, "b": gpus_b, "same": gpus_a == gpus_b},
        "identical": identical,
        "sources": {"a": a.source, "b": b.source},
        "summary": _summary(iteration, main, rows),
    }
    return Result("diff", rows, extra, tuple(notes))


def exceeds(result: Result, limit_share: float) -> str | None:
    """Why `result`, of `diff`, fails a gate that allows `limit_share` of slowdown; None: it passes.

    Any pair of lanes that is slower by at least the limit fails; so does an inconclusive answer.
    """
    lanes = result.extra["lanes"] or [result.extra["iteration"]]
    for lane in lanes:
        if lane["verdict"] == "slower" and lane["delta_share"] >= limit_share:
            where = "" if lane["gpu"] is None else f" on GPU {lane['gpu']}"
            return (
                f"slower by {100 * lane['delta_share']:.2f} %{where}, "
                f"the limit is {100 * limit_share:g} %"
            )
    unknown = next((lane for lane in lanes if lane["verdict"] == "inconclusive"), None)
    return None if unknown is None else f"inconclusive: {unknown['reason']}"


def _gpus(trace: Trace) -> list[int]:
    ops = in_windows(device_ops(trace), trace.windows)
    kernels = ops.filter(pl.col("op").is_in(["kernel", "graph"]))
    return kernels["gpu"].unique().sort().to_list()


def _identical(a: Trace, b: Trace) -> bool:
    """Whether the device work is the same, but for process numbers and the clock's zero."""

    def content(trace: Trace) -> pl.DataFrame:
        ops = in_windows(device_ops(trace), trace.windows)
        origin = pl.col("start_ns").min()
        return ops.select(
            "gpu",
            "stream_id",
            pl.col("start_ns") - origin,
            pl.col("end_ns") - origin,
            pl.col("op").cast(pl.String),
            pl.col("name").cast(pl.String),
        )

    return content(a).equals(content(b))


def _device_notes(a: list[int], b: list[int], pairs: list[tuple[int, int]]) -> list[str]:
    if not a or not b:
        sides = [name for name, gpus in (("A", a), ("B", b)) if not gpus]
        return [f"Run {' and run '.join(sides)} has no kernels: there is nothing to compare."]
    if a == b:
        return []
    told = ", ".join(f"GPU {x} with GPU {y}" for x, y in pairs) or "none"
    return [
        f"The runs use different GPUs: A has {_list(a)}, B has {_list(b)}; compared: {told}. "
        "Totals over all GPUs are not compared."
    ]


def _list(gpus: list[int]) -> str:
    return ", ".join(map(str, gpus))


def _compared(
    a: Trace, b: Trace, pairs: list[tuple[int, int]], seed: int
) -> tuple[list[LaneDiff], list[str]]:
    found, notes = [], []
    for one, other in pair_lanes(a, b, pairs):
        if one is None or other is None:
            present = one or other
            assert present is not None
            side = "B" if one is None else "A"
            notes.append(f"{present.lane.label} of run {side} has no partner in the other run.")
            continue
        compared = compare_lanes(one, other)
        if compared is None:
            notes.append(
                f"{one.lane.label} and {other.lane.label} have no repeated work in common."
            )
            continue
        if compared.basis == "loop":
            notes.append(
                f"{one.lane.label}: no iterations in both runs; compared is a loop of "
                f"{len(compared.a_found.body):,} operations that both have."
            )
        found.append(compared)
    confidence = 1 - 0.05 / max(len(found), 1)
    lanes = []
    for compared in found:
        mine = occurrences(a, compared.a_lane, compared.a_found)
        theirs = occurrences(b, compared.b_lane, compared.b_found)
        a_ns, b_ns = _periods(compared)
        difference = compare_durations(a_ns, b_ns, confidence=confidence, seed=seed)
        lanes.append(LaneDiff(compared, mine, theirs, difference, *_by_cut(a_ns, b_ns)))
    return lanes, notes


def _main(lanes: list[LaneDiff]) -> LaneDiff | None:
    if not lanes:
        return None
    time_ns = [int(lane.a.turns["wall_ns"].sum()) for lane in lanes]
    enough = SIMILAR_TIME_SHARE * max(time_ns)
    able = [lane for lane, ns in zip(lanes, time_ns, strict=True) if ns >= enough]
    return min(able, key=lambda lane: lane.compared.a_lane.gpu)


def _periods(compared: Compared) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Iteration times of both runs, a row an iteration, measured from each of the same places."""
    columns = compared.columns
    same = np.flatnonzero(columns.equal)
    longest = max(len(compared.a_found), len(compared.b_found))
    count = min(len(same), max(1, min(MEASURED_PLACES, MEASURED_TIMES // longest)))
    chosen = same[np.arange(count) * len(same) // count]
    return (
        periods_ns(compared.a_lane, compared.a_found, columns.a[chosen]),
        periods_ns(compared.b_lane, compared.b_found, columns.b[chosen]),
    )


def _by_cut(
    a_ns: NDArray[np.float64], b_ns: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Least and largest delta_share over the places at which the cycle can be cut."""
    if not len(a_ns) or not len(b_ns):
        return None, None
    shares = np.median(b_ns, axis=0) / np.median(a_ns, axis=0) - 1
    return float(shares.min()), float(shares.max())


def _iteration(lane: LaneDiff | None, *, identical: bool, empty: bool) -> dict[str, Any]:
    if lane is None:
        same = identical and not empty
        return {
            "gpu": None,
            "a_median_ns": None,
            "b_median_ns": None,
            "delta_share": 0.0 if same else None,
            "ci_low": 0.0 if same else None,
            "ci_high": 0.0 if same else None,
            "confidence": None,
            "p_value": None,
            "verdict": "same" if same else "inconclusive",
            "reason": None
            if same
            else ("a run has no kernels" if empty else "the runs have no repeated work in common"),
            "a_count": 0,
            "b_count": 0,
            "cut_low": None,
            "cut_high": None,
            "a_cut_median_ns": None,
            "b_cut_median_ns": None,
            "basis": "identical" if same else "kernels",
        }
    d = lane.difference
    row = {
        "gpu": lane.compared.a_lane.gpu,
        "a_median_ns": d.a_median_ns,
        "b_median_ns": d.b_median_ns,
        "delta_share": d.delta_share,
        "ci_low": d.ci_low,
        "ci_high": d.ci_high,
        "confidence": d.confidence,
        "p_value": d.p_value,
        "verdict": d.verdict,
        "reason": d.reason,
        "a_count": d.a_count,
        "b_count": d.b_count,
        "cut_low": lane.cut_low,
        "cut_high": lane.cut_high,
        "a_cut_median_ns": _median(lane.a.turns["wall_ns"]),
        "b_cut_median_ns": _median(lane.b.turns["wall_ns"]),
        "basis": lane.compared.basis,
        "a_lane": lane.compared.a_lane.label,
        "b_lane": lane.compared.b_lane.label,
        "a_pattern": lane.compared.pattern_a,
        "b_pattern": lane.compared.pattern_b,
        "similarity": lane.compared.columns.similarity,
    }
    if identical:
        # Nothing was sampled: the two are one and the same run, and differ by exactly nothing.
        row |= {"delta_share": 0.0, "ci_low": 0.0, "ci_high": 0.0, "verdict": "same",
                "reason": None}  # fmt: skip
    return row


def _parts(lane: LaneDiff) -> pl.DataFrame:
    rows = []
    wall = lane.difference.a_median_ns
    for column, name in PARTS.items():
        if column == "wall_ns":
            a, b = lane.difference.a_median_ns, lane.difference.b_median_ns
        else:
            a, b = (_median(one.turns[column]) for one in (lane.a, lane.b))
        delta = None if a is None or b is None else b - a
        rows.append(
            {
                "gpu": lane.compared.a_lane.gpu,
                "part": name,
                "a_ns": a,
                "b_ns": b,
                "delta_ns": delta,
                "delta_share": delta / a if delta is not None and a else None,
                "wall_share": delta / wall if delta is not None and wall else None,
            }
        )
    return pl.DataFrame(rows, schema=PART_SCHEMA)


def _median(values: pl.Series) -> float | None:
    median = values.median()
    return float(median) if isinstance(median, int | float) else None


def _summary(iteration: dict[str, Any], main: LaneDiff | None, rows: pl.DataFrame) -> list[str]:
    if main is None or iteration["delta_share"] is None:
        return [f"Verdict: {iteration['verdict']}"
                + (f" ({iteration['reason']})." if iteration["reason"] else ".")]  # fmt: skip
    lines = [_headline(iteration)]
    if iteration["cut_low"] is not None and iteration["verdict"] != "same":
        lines.append(
            f"By where the cycle is cut the change is {100 * iteration['cut_low']:+.1f} % to "
            f"{100 * iteration['cut_high']:+.1f} %."
        )
    parts = {row["part"]: row for row in _parts(main).iter_rows(named=True)}
    told = [
        f"{name} {format_ns(row['a_ns'])} -> {format_ns(row['b_ns'])}"
        + (f" ({100 * row['delta_share']:+.1f} %)" if row["delta_share"] is not None else "")
        for name, row in parts.items()
        if name != "wall" and (row["a_ns"] or row["b_ns"])
    ]
    lines.append("Per iteration: " + ", ".join(told) + ".")
    lines += _grown_waits(main, rows)
    return lines


def _grown_waits(main: LaneDiff, rows: pl.DataFrame) -> list[str]:
    """Where more waiting sits: stretches of neighbouring places, the costliest first."""
    waits = rows.filter(
        pl.col("part").cast(pl.String).is_in(["idle", "exposed copy"])
        & pl.col("change").cast(pl.String).is_in(["slower", "added"])
    ).sort("position")
    if waits.height == 0:
        return []
    apart = pl.col("position").diff().fill_null(0) > NEIGHBOUR_PLACES
    stretches = (
        waits.with_columns(apart.cum_sum().alias("stretch"))
        .group_by("stretch")
        .agg(
            pl.col("position").min().alias("first"),
            pl.col("position").max().alias("last"),
            pl.col("delta_ns").sum(),
            pl.col("what").first(),
            pl.len().alias("places"),
        )
        .sort("delta_ns", descending=True)
        .head(SUMMARY_STRETCHES)
    )
    body, names = main.compared.a_found.body, main.compared.a_lane.sequence.names
    in_a = main.compared.columns.a

    def name(position: int) -> str:
        place = int(in_a[position])
        return signature(names[int(body[place])]) if place >= 0 else "new work"

    lines = []
    for row in stretches.iter_rows(named=True):
        first, last = row["first"], row["last"]
        where = (
            f"after operation {first} ({name(first)})"
            if first == last
            else f"after operations {first} ({name(first)}) to {last} ({name(last)})"
        )
        lines.append(f"More waiting {where}: {format_ns(row['delta_ns'])} more per iteration.")
    return lines


def _headline(iteration: dict[str, Any]) -> str:
    text = (
        f"GPU {iteration['gpu']}: {iteration['verdict']}: "
        f"{format_ns(iteration['a_median_ns'])} -> {format_ns(iteration['b_median_ns'])} per "
        f"{iteration['basis']}, {100 * iteration['delta_share']:+.2f} %"
    )
    if iteration["ci_low"] is not None:
        text += (
            f" ({100 * iteration['confidence']:.4g} % interval {100 * iteration['ci_low']:+.2f} to "
            f"{100 * iteration['ci_high']:+.2f} %)"
        )
    text += f", {iteration['a_count']:,} against {iteration['b_count']:,} iterations"
    return text + (f": {iteration['reason']}." if iteration["reason"] else ".")
