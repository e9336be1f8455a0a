"""Figures of the report: `python -m tests.benchmarks.report_page RUN...` from the repository's top.

For each run (a dataset or an export, say one of `python -m fixtures.generator big big.sqlite`): the
seconds from a fresh process to the written page, the peak of memory, the page's size, and, where
there is a browser, when it is painted and when every chart is drawn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.browser.conftest import DRAWN, start_driver


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    print(f"{'run':40} {'s':>7} {'MB peak':>8} {'MB page':>8} {'painted ms':>11} {'drawn ms':>9}")
    with tempfile.TemporaryDirectory(prefix="report-benchmark-") as folder:
        driver = start_driver(Path(folder) / "profile")
        for run in parser.parse_args().runs:
            page = Path(folder) / f"{run.name}.html"
            seconds, peak_mb = written(run, page)
            size_mb = page.stat().st_size / 1e6
            painted, drawn = ("—", "—") if driver is None else opened(driver, page)
            print(
                f"{run.name:40} {seconds:7.2f} {peak_mb:8.0f} {size_mb:8.2f} "
                f"{painted:>11} {drawn:>9}",
                flush=True,
            )
        if driver is not None:
            driver.quit()


def written(run: Path, page: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of `nsys-deepprof report`."""
    command = "from nsys_deepprof.cli import main; main()"
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", command, "report", str(run), "-o", str(page)],
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{run}: no report")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def opened(driver: object, page: Path) -> tuple[str, str]:
    """Milliseconds from opening the page to its first paint, and to its last chart."""
    driver.get(page.as_uri())  # type: ignore[attr-defined]
    failure = driver.execute_async_script(DRAWN)  # type: ignore[attr-defined]
    if failure is not None:
        raise SystemExit(f"{page}: {failure}")
    script = "return [performance.getEntriesByType('paint')[0].startTime, performance.now()]"
    painted, now = driver.execute_script(script)  # type: ignore[attr-defined]
    return f"{painted:.0f}", f"{now:.0f}"


if __name__ == "__main__":
    main()
