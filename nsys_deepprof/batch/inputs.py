"""Which runs a batch is asked to do: files, folders, patterns and lists, in a fixed order."""

from __future__ import annotations

import os
from glob import glob, has_magic
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from nsys_deepprof.batch.status import is_dataset
from nsys_deepprof.dataset import SUFFIX
from nsys_deepprof.errors import InputError
from nsys_deepprof.names import by_number
from nsys_deepprof.sources.unpacked import is_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FORMS = (".sqlite", ".sqlite.gz", ".sqlite.zst", "_pqtdir", SUFFIX, ".nsys-rep")
"""Endings by which a folder is searched. Where one folder holds several forms of one run (equal
names but for the ending), the first form here stands for it."""

_PARQUET_DIR_MARK = "StringIds.parquet"


def find_inputs(
    paths: Iterable[str],
    *,
    listed: Iterable[str] = (),
    include: Sequence[str] = (),
    exclude_dir: Path | None = None,
) -> list[str]:
    """Absolute paths of the runs that `paths` name, each once, in order.

    A path is a run itself (a file, or an fsspec URL), a folder (searched with everything below it,
    sorted by path with numbers by value, hidden names left out), a pattern (`*`, `?`, `[]`, `**`),
    or `-` for the lines of `listed`. A path that does not exist is kept: it becomes a failed run,
    as on a list.
    `include` keeps only files of a folder whose name matches one of these patterns.
    `exclude_dir` (the output) is not searched.

    Raises InputError when a folder or a pattern gives nothing.
    """
    skip = None if exclude_dir is None else exclude_dir.resolve()
    found: dict[str, None] = {}
    for given in paths:
        lines = (line.rstrip("\r\n") for line in listed) if given == "-" else (given,)
        for path in lines:
            if path:
                found.update(dict.fromkeys(_expand(path, include, skip)))
    return list(found)


def is_run_directory(path: Path) -> bool:
    """Whether a directory is one run: a converted dataset or a Parquet export."""
    return is_dataset(path) or (path / _PARQUET_DIR_MARK).is_file()


def _expand(given: str, include: Sequence[str], skip: Path | None) -> Iterator[str]:
    if is_url(given):
        yield given
        return
    if has_magic(given) and not os.path.lexists(given):
        matches = sorted(glob(given, recursive=True), key=_by_parts)
        if not matches:
            raise InputError(given, "matches no file", "quote the pattern, check the folder")
        for match in matches:
            path = Path(match)
            if not path.is_dir() or is_run_directory(path):
                yield os.path.abspath(match)
            elif "**" not in given:
                yield from _search(path, include, skip)
        return
    path = Path(given)
    if not path.is_dir() or is_run_directory(path):
        yield os.path.abspath(given)
        return
    runs = _search(path, include, skip)
    if not runs:
        endings = ", ".join(FORMS)
        raise InputError(given, "holds no run", f"looked for {endings}, in all folders below")
    yield from runs


def _search(top: Path, include: Sequence[str], skip: Path | None) -> list[str]:
    runs = sorted(_runs_below(top, include, skip), key=_by_parts)
    return [os.path.abspath(run) for run in runs]


def _runs_below(top: Path, include: Sequence[str], skip: Path | None) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        here = Path(folder)
        inside = [name for name in folders if not name.startswith(".")]
        whole = [name for name in inside if is_run_directory(here / name)]
        folders[:] = [
            name for name in inside if name not in whole and (here / name).resolve() != skip
        ]
        names = [name for name in (*files, *whole) if not name.startswith(".")]
        chosen = [n for n in names if not include or any(PurePath(n).match(p) for p in include)]
        yield from (str(here / name) for name in _one_form_each(chosen))


def _one_form_each(names: list[str]) -> Iterator[str]:
    forms: dict[str, dict[int, str]] = {}
    for name in names:
        for rank, ending in enumerate(FORMS):
            if name.endswith(ending):
                forms.setdefault(name.removesuffix(ending), {})[rank] = name
                break
    for same in forms.values():
        yield same[min(same)]


def _by_parts(path: str) -> tuple[list[list[str | int]], str]:
    """Folder by folder, and numbers by their value: rank 2 comes before rank 10."""
    return [by_number(part) for part in PurePath(path).parts], path
