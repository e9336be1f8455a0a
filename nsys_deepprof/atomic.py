"""Files that are whole or absent: built beside their place, then renamed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A path to write to; the file takes the place of `target` when the block ends without error.

    It is in a directory of its own, so what a library writes beside it goes with that. Where
    `target` is a link the file that it leads to is replaced, and a replaced file's mode is kept.
    """
    target = target.resolve()
    # Of the name only the beginning: a name may be as long as the file system takes.
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name[:40]}.", dir=target.parent))
    try:
        building = aside / target.name
        yield building
        if target.is_file():
            building.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(building, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
