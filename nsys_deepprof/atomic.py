"""Files and directories that are whole or absent: built beside their place, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A path to write to; it takes the place of `target` when the block ends without an error."""
    with new_directory(target, keep_directory=False) as building:
        inside = building / target.name
        yield inside
        os.replace(inside, target)


@contextmanager
def new_directory(target: Path, *, keep_directory: bool = True) -> Iterator[Path]:
    """A directory to fill; it takes the place of `target` when the block ends without an error.

    With `keep_directory` off it is only a place beside `target`, and goes when the block ends.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield building
        if keep_directory:
            building.chmod(0o777 & ~_umask())
            _swap(building, target)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _swap(building: Path, target: Path) -> None:
    if not target.exists():
        building.rename(target)
        return
    # A directory cannot be renamed onto a full one: the old one steps aside first.
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    target.rename(aside / "old")
    building.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
