"""How well causes of planted stalls are told, by kind: `python -m tests.benchmarks.planted_causes`.

For each kind of stall, over several seeds: precision and recall of its gap cause (weighted by
time, the worst seed), and the worst relative error of the cost that the finding claims. `mixed` has
every kind in one run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

import nsys_deepprof as nd
from fixtures.generator import generate
from fixtures.scenarios import STALLS
from fixtures.stalls import GAP_CAUSES
from tests.analyses.test_findings_planted import FINDING_OF, unplanted_cost_ns

if TYPE_CHECKING:
    from fixtures.truth import Truth


class Score(NamedTuple):
    """Of one run: by cause, time planted, time so called, and time rightly so called; by finding,
    time planted (and there without stalls) and time claimed."""

    planted: Counter[str]
    named: Counter[str]
    right: Counter[str]
    cost: Counter[str]
    claimed: Counter[str]


def score(scenario: str, seed: int) -> Score:
    """Generate the scenario and compare what is found with what was planted."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        truth = generate(STALLS[scenario](seed), path)
        trace = nd.open_trace(path)
        gaps = nd.gaps(trace, min_gap_ns=0).frame.filter(pl.col("gpu") == pl.col("gpu").min())
        findings = nd.findings(trace).frame
    claimed: Counter[str] = Counter()
    for kind, ns in findings.select("kind", "recoverable_ns").iter_rows():
        claimed[kind] += ns or 0
    own = Counter({FINDING_OF.get(scenario, scenario): unplanted_cost_ns(scenario, seed=seed)})
    return _compared(truth, gaps, claimed, own)


def _compared(truth: Truth, gaps: pl.DataFrame, claimed: Counter[str], own: Counter[str]) -> Score:
    found = {(a, b): c for a, b, c in gaps.select("start_ns", "end_ns", "cause").iter_rows()}
    planted, named, right = (Counter[str]() for _ in range(3))
    cost = +own
    for stall in truth.stalls:
        cost[FINDING_OF.get(stall.kind, stall.kind)] += stall.idle_ns + stall.exposed_ns
        if stall.kind not in GAP_CAUSES:
            continue
        expected = GAP_CAUSES[stall.kind]
        for start, end in stall.gaps:
            planted[expected] += end - start
            named[found[start, end]] += end - start
            right[expected] += (end - start) if found[start, end] == expected else 0
    return Score(planted, named, right, cost, claimed)


def row(scenario: str, scores: list[Score]) -> str:
    """One line of the table: the worst of the seeds."""
    recall = [s.right[c] / s.planted[c] for s in scores for c in s.planted]
    precision = [s.right[c] / s.named[c] for s in scores for c in s.planted if s.named[c]]
    cause = ", ".join(sorted({c for s in scores for c in s.planted})) or "-"
    error = [
        abs(s.claimed[kind] / s.cost[kind] - 1)
        for s in scores
        for kind in s.cost
        if scenario != "mixed" and kind in FINDING_OF.values()
    ]
    cells = [
        scenario,
        "all" if scenario == "mixed" else cause,
        f"{min(precision):.4f}" if precision else "-",
        f"{min(recall):.4f}" if recall else "-",
        f"{max(error):.2%}" if error else "-",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("scenarios", nargs="*", default=[*FINDING_OF, "unknown", "mixed"])
    options = parser.parse_args()
    print("| planted | gap cause | precision | recall | error of the claimed cost |")
    print("|---|---|---|---|---|")
    for scenario in options.scenarios:
        print(row(scenario, [score(scenario, seed) for seed in range(options.seeds)]), flush=True)


if __name__ == "__main__":
    main()
