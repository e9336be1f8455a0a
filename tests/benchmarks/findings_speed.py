"""How fast findings are on a large run: fresh processes, from the export and from its dataset.

    python -m tests.benchmarks.findings_speed [--kernels 1000000] [--folder DIR]

The run has two processes on two GPUs, 1.9 API calls, 4.8 nested NVTX ranges and a quarter of a copy
a kernel. Times and the peak of memory are those of the process; the machine code of the miner is
compiled beforehand, by a run that is not counted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from fixtures.generator import generate
from fixtures.scenarios import big
from tests.benchmarks.mining_speed import measure


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="keep the export and its dataset here")
    asked = parser.parse_args()
    cli = [sys.executable, "-c", "from nsys_deepprof.cli import main; main()"]
    program = [*cli, "findings"]
    with tempfile.TemporaryDirectory(prefix="findings-benchmark-") as scratch:
        folder = asked.folder or Path(scratch)
        export, dataset = folder / "big.sqlite", folder / "big.deepprof"
        if not export.exists():
            generate(big(kernels=asked.kernels), export)
        if not dataset.exists():
            # In a process of its own: the peak of a child begins with that of its parent.
            measure([*cli, "convert", str(export), "-o", str(dataset)])
        print(f"{asked.kernels:,} kernels, an export of {export.stat().st_size / 1e9:.2f} GB")
        print("| findings from | wall s | CPU s | peak MB |\n|---|---|---|---|")
        measure([*program, str(dataset)])
        for run in (dataset, export):
            cost = measure([*program, str(run)])
            print(
                f"| {run.name} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} | {cost.peak_mb:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
