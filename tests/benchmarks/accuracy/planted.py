"""Planted traces of one class and seed: the lane, its truth, and what the miner says of it."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fixtures.generator import generate
from fixtures.scenarios import SCENARIOS
from nsys_deepprof.analyses.lanes import Lane, lanes
from nsys_deepprof.mining.iterations import Iterations, find_iterations, is_outlier
from nsys_deepprof.mining.loops import nest_text
from nsys_deepprof.mining.outliers import explain, gaps_before, usual
from nsys_deepprof.opening import open_trace
from tests.benchmarks.accuracy.baselines import BASELINES
from tests.benchmarks.accuracy.scores import Score, score_starts

if TYPE_CHECKING:
    from fixtures.truth import Truth


@dataclass(frozen=True)
class Outcome:
    """What was found in one planted trace, beside the truth."""

    kind: str
    seed: int
    ours: Score
    baselines: dict[str, Score]
    count_right: bool
    period_right: bool
    nest_right: bool | None
    flags_right: bool
    reasons_right: bool | None
    reason: str


def planted_lane(kind: str, seed: int) -> tuple[Lane, Truth]:
    """The lane with the planted loop, from an export written and read as any other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}-{seed}.sqlite"
        truth = generate(SCENARIOS[kind](seed), path)
        trace = open_trace(path)
        planted = truth.lanes[0]
        (lane,) = [
            lane
            for lane in lanes(trace)
            if lane.pid == planted.pid and lane.stream_id == planted.stream_id
        ]
    return lane, truth


def judge(kind: str, seed: int) -> Outcome:
    """Mine one planted trace, without its NVTX ranges, and compare with the truth."""
    lane, truth = planted_lane(kind, seed)
    levels = truth.lanes[0].levels
    true_ns = np.array(levels[0].starts_ns if levels else [], np.int64)
    end_ns = levels[0].end_ns if levels else 0
    found, choice = find_iterations(lane.sequence)
    starts = np.empty(0, np.int64) if found is None else found.start_ns
    flags, reasons = _outliers(lane, found, truth)
    return Outcome(
        kind=kind,
        seed=seed,
        ours=score_starts(starts, true_ns, end_ns),
        baselines={
            name: score_starts(method(lane.sequence), true_ns, end_ns)
            for name, method in BASELINES.items()
        },
        count_right=len(starts) == len(true_ns),
        period_right=_period_right(found, truth),
        nest_right=_nest_right(found, truth),
        flags_right=flags,
        reasons_right=reasons,
        reason=choice.reason,
    )


def _period_right(found: Iterations | None, truth: Truth) -> bool:
    """Is the median distance of two starts right, in kernels of the lane?"""
    levels = truth.lanes[0].levels
    if found is None or not levels:
        return found is None and not levels
    true = np.median(np.diff(levels[0].first_events))
    return bool(abs(np.median(np.diff(found.first)) - true) <= 0.02 * true)


def _nest_right(found: Iterations | None, truth: Truth) -> bool | None:
    """Is the planted nest found, to the kernel? Its counts may have a wider range than came up."""
    if truth.nest_text is None:
        return None
    if found is None:
        return False
    planted = re.sub(r"^\d+, ", "", truth.nest_text) if truth.warmup_kernels else truth.nest_text
    ours = f"({nest_text(found.nest)})x{len(found)}"
    varying = r"x(\d+)(?:\.\.(\d+))?"
    if re.sub(varying, "x", planted) != re.sub(varying, "x", ours):
        return False
    for true, mine in zip(re.finditer(varying, planted), re.finditer(varying, ours), strict=True):
        least, most = int(true[1]), int(true[2] or true[1])
        if not least <= int(mine[1]) <= int(mine[2] or mine[1]) <= most:
            return False
    return True


def _outliers(lane: Lane, found: Iterations | None, truth: Truth) -> tuple[bool, bool | None]:
    """Are exactly the planted slow iterations flagged, and each for the planted reason?"""
    planted = {outlier.iteration: outlier for outlier in truth.outliers}
    if found is None:
        return not planted, None
    flagged = np.flatnonzero(is_outlier(found.duration_ns)).tolist()
    if not planted:
        return True, None
    sequence = lane.sequence
    gap_ns = gaps_before(sequence)
    typical = usual(found, sequence.end_ns - sequence.start_ns, gap_ns)
    reasons = []
    for turn in set(flagged) & set(planted):
        why = explain(sequence, found, turn, typical, gap_ns)
        true = planted[turn]
        reasons.append(why is not None and (why.cause, why.position) == (true.kind, true.position))
    return set(flagged) == set(planted), all(reasons)
