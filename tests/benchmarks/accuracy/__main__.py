"""The accuracy of iteration detection on planted traces, ours beside three baselines.

    python -m tests.benchmarks.accuracy [--seeds 20] [--first-seed 0] [CLASS ...]

Prints a Markdown table: of every class the mean over the seeds and, in brackets, the worst.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING

from fixtures.scenarios import ACCURACY, WITHOUT_ITERATIONS
from tests.benchmarks.accuracy.baselines import BASELINES
from tests.benchmarks.accuracy.planted import Outcome, judge

if TYPE_CHECKING:
    from collections.abc import Iterable


def main() -> None:
    """Judge every class and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("classes", nargs="*", metavar="CLASS", help="default: all")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    kinds = asked.classes or [*ACCURACY, *WITHOUT_ITERATIONS]
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    print(header())
    with ProcessPoolExecutor(asked.workers) as pool:
        for kind in kinds:
            print(row(kind, list(pool.map(judge, repeat(kind), seeds))), flush=True)


def header() -> str:
    """The table's two header lines."""
    names = [
        *("class", "precision", "recall", "F1", "count", "period", "nest", "slow ones", "reasons"),
        *(f"F1 {name}" for name in BASELINES),
    ]
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


def row(kind: str, outcomes: list[Outcome]) -> str:
    """One class: means, with the worst seed's in brackets, and in how many seeds it is right."""
    cells = [
        kind,
        _mean_and_worst(o.ours.precision for o in outcomes),
        _mean_and_worst(o.ours.recall for o in outcomes),
        _mean_and_worst(o.ours.f1 for o in outcomes),
        _right(o.count_right for o in outcomes),
        _right(o.period_right for o in outcomes),
        _right(o.nest_right for o in outcomes),
        _right(o.flags_right if o.reasons_right is not None else None for o in outcomes),
        _right(o.reasons_right for o in outcomes),
        *(_mean_and_worst(o.baselines[name].f1 for o in outcomes) for name in BASELINES),
    ]
    return f"| {' | '.join(cells)} |"


def _mean_and_worst(values: Iterable[float]) -> str:
    every = list(values)
    return f"{sum(every) / len(every):.3f} ({min(every):.3f})"


def _right(values: Iterable[bool | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known)}/{len(known)}" if known else "-"


if __name__ == "__main__":
    main()
