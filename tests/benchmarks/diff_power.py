"""How often `diff` finds a planted slowdown, and how often it finds one where there is none.

    python -m tests.benchmarks.diff_power [--equal 200] [--slower 60] [--iterations 51]

Pairs of generated training runs, their times drawn apart. Prints, per kind and size of what was
planted, the share of pairs with each verdict and how often the largest change is at the planted
kernel (or in the idle time before it).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from fixtures.generator import generate
from fixtures.steps import Style
from fixtures.training import training
from nsys_deepprof import diff, open_trace


def compare(seed: int, kind: str, share: float, *, iterations: int) -> tuple[str, bool]:
    """The verdict on one pair, and whether the largest change is where it was planted."""
    options: dict[str, Any] = {"seed": seed, "style": Style("item"), "iterations": iterations}
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.sqlite", Path(folder) / "after.sqlite"
        generate(training(jitter_seed=2 * seed + 1_000, **options), before)
        planted = generate(
            training(
                jitter_seed=2 * seed + 1_001, regression=(kind, share) if share else None, **options
            ),
            after,
        ).regression
        result = diff(open_trace(before), open_trace(after))
    changed = result.frame.filter(pl.col("change").cast(pl.String) != "same").head(1).to_dicts()
    place = None if planted is None else planted.position - (planted.kind == "gap")
    return result.extra["iteration"]["verdict"], bool(changed) and changed[0]["position"] == place


def main() -> None:
    """Run the pairs and print one line for each kind and size."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--equal", type=int, default=200, help="pairs without a difference")
    parser.add_argument("--slower", type=int, default=60, help="pairs of each kind and size")
    parser.add_argument("--iterations", type=int, default=51)
    options = parser.parse_args()
    planted = [(kind, share) for share in (0.01, 0.03, 0.10) for kind in ("kernel", "gap")]
    for kind, share in [("none", 0.0), *planted]:
        pairs = options.slower if share else options.equal
        began = time.perf_counter()
        answers = [compare(s, kind, share, iterations=options.iterations) for s in range(pairs)]
        verdicts = Counter(verdict for verdict, _ in answers)
        told = ", ".join(f"{name} {count / pairs:.3f}" for name, count in verdicts.most_common())
        placed = sum(there for _, there in answers) / pairs
        where = f"; at the planted place {placed:.3f}" if share else ""
        each = (time.perf_counter() - began) / pairs
        print(f"{kind} {share:.0%}, {pairs} pairs: {told}{where}; {each:.2f} s a pair", flush=True)


if __name__ == "__main__":
    main()
