"""An engine without processes, for what does not depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsys_deepprof.batch.engines import Outcome
from nsys_deepprof.batch.job import do_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from nsys_deepprof.batch.isolation import Limits


def here(paths: Sequence[str], out: Path, limits: Limits) -> Iterator[Outcome]:
    """Do every run in this process."""
    for path in paths:
        yield Outcome(path, *do_run(path, out, lambda _: None))
