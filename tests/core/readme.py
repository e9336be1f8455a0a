"""The README's examples, run: `python -m tests.core.readme` writes their output into it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
WIDTH = "100"
EXAMPLE = re.compile(r"(```console\n\$ (nsys-deepprof [^\n]+)\n)(.*?)(```)", re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Each example's command and the output that the README shows."""
    return [(m[2], m[3]) for m in EXAMPLE.finditer(README.read_text(encoding="utf-8"))]


def output(command: str) -> str:
    """What the command prints, in a terminal of 100 columns."""
    words = shlex.split(command)[1:]
    code = "from nsys_deepprof.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": WIDTH},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def definitions() -> str:
    """The definitions that the report shows, as the README lists them."""
    from nsys_deepprof.definitions import DEFINITIONS

    return "\n".join(f"- **{term}**: {meaning}" for term, meaning in DEFINITIONS)


def main() -> None:
    """Rewrite the outputs and the definitions."""
    text = README.read_text(encoding="utf-8")
    text = EXAMPLE.sub(lambda m: f"{m[1]}{output(m[2])}{m[4]}", text)
    start, end = "## What the numbers mean\n\n", '\n\n"No data", '
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    README.write_text(before + start + definitions() + end + after, encoding="utf-8")


if __name__ == "__main__":
    main()
