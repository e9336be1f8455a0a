"""Results to standard output or to a file that is whole or absent."""

from __future__ import annotations

import os
import sys
import zlib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsys_deepprof.atomic import new_file
from nsys_deepprof.cli.options import Format
from nsys_deepprof.errors import OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace

SCREENFUL = 20
"""Rows of a table when no limit is given."""

NAMED_RUNS = 4
"""Runs that a table names; of more, the first and the last."""

SUMMARY_WIDTH = 100
"""Columns of a summary that is not for a terminal."""

GZIP_LEVEL = 4
"""A tenth larger than the best, at twice its speed."""


def write(
    result: Result,
    traces: Sequence[Trace],
    *,
    runs: Sequence[Path],
    format_: Format,
    output: Path | None,
    limit: int | None,
) -> None:
    """Write `result` as asked, with the warnings and windows of its traces beside it.

    `runs` are the inputs, which are never written over.
    """
    source = ", ".join(trace.source for trace in traces)
    result = _with_context(result, traces)
    asked = limit
    if limit is None:
        limit = SCREENFUL if format_ is Format.TABLE else 0
    match format_:
        case Format.MD | Format.TABLE if result.command == "findings":
            from nsys_deepprof.analyses.info import info
            from nsys_deepprof.reports.markdown import summary

            width = None if format_ is Format.MD else _terminal_width() or SUMMARY_WIDTH
            text = summary(result, info(traces[0]), source=source, limit=asked, width=width)
        case Format.MD:
            raise UsageError("--format md", "is a summary of findings", "use the command findings")
        case Format.TABLE:
            from nsys_deepprof.reports import table

            width = _terminal_width() if output is None else None
            if len(traces) > NAMED_RUNS:
                source = f"{traces[0].source} to {traces[-1].source}, {len(traces):,} runs"
            text = table.render(result, source, limit=limit, width=width)
        case Format.JSON:
            from nsys_deepprof.reports import rows

            text = rows.to_json(result, source, limit=limit)
        case Format.CSV:
            from nsys_deepprof.reports import rows

            text = rows.to_csv(result, limit=limit)
        case Format.PARQUET:
            from nsys_deepprof.reports import rows

            _write_bytes(rows.to_parquet(result, limit=limit), output, runs)
            return
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(text, output, keep=runs)


def write_text(text: str, output: Path, *, keep: Path | Sequence[Path]) -> None:
    """Write `text` to `output`, whole or not at all, and never over the inputs `keep`."""
    # The name of a file need not be text.
    _replace_file(output, [text.encode("utf-8", "replace")], keep)


def write_page(
    render: Callable[[Result], str], result: Result, traces: Sequence[Trace], output: Path
) -> None:
    """Write the page of an analysis of `traces`, with their warnings, as `write_text` does."""
    text = render(_with_context(result, traces))
    write_text(text, output, keep=[Path(trace.source) for trace in traces])


def write_pieces(pieces: Iterable[bytes], output: Path, *, keep: Path) -> None:
    """Write the pieces to `output` as `write_text` does; compressed where it is called `*.gz`."""
    if output.suffix.lower() == ".gz":
        pieces = _gzipped(pieces)
    _replace_file(output, pieces, keep)


def default_report(run: Path) -> Path:
    """Where the report of `run` goes: beside it, with the suffix `.html`."""
    return (
        run.resolve().with_suffix(".html") if run.name in ("", "..") else run.with_suffix(".html")
    )


def _with_context(result: Result, traces: Sequence[Trace]) -> Result:
    """What an analysis of one trace says by itself, added to one of several traces."""
    if len(traces) < 2:
        return result
    from nsys_deepprof.analyses.trust import capture_warnings

    said: dict[str, list[str]] = {}
    for trace in traces:
        for warning in capture_warnings(trace):
            said.setdefault(warning, []).append(trace.source)
    every = "both runs" if len(traces) == 2 else f"all {len(traces):,} runs"
    warnings = [
        f"{every if len(of) == len(traces) else ', '.join(of)}: {warning}"
        for warning, of in said.items()
    ]
    windows = [trace.windows for trace in traces if trace.windows is not None]
    context = {"warnings": warnings, **({"analysed_windows": windows} if windows else {})}
    return replace(result, extra={**context, **result.extra})


def _write_bytes(content: bytes, output: Path | None, keep: Sequence[Path]) -> None:
    if output is not None:
        _replace_file(output, [content], keep)
    elif sys.stdout.isatty():
        raise UsageError("--format parquet", "is not for a terminal", "name a file with -o")
    else:
        sys.stdout.buffer.write(content)


def _gzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    # No time and no name in the header: the same trace makes the same bytes.
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def _replace_file(output: Path, pieces: Iterable[bytes], keep: Path | Sequence[Path]) -> None:
    inputs = [keep] if isinstance(keep, Path) else keep
    if any(_is_input(output, run) for run in inputs):
        raise OutputError(output, "is the input itself, or inside it", "name another file")
    # A pipe or a device (/dev/stdout) is written in place, and so is what no path leads to.
    whole = output.resolve().is_file() or not output.exists()
    try:
        with new_file(output) if whole else nullcontext(output) as path, path.open("wb") as file:
            file.writelines(pieces)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            output, f"cannot be written: {reason}", "check space and permissions"
        ) from error


def _is_input(output: Path, run: Path) -> bool:
    if not run.exists():
        return False
    if output.exists() and output.samefile(run):
        return True
    return run.is_dir() and run.resolve() in output.resolve().parents


def _terminal_width() -> int | None:
    if sys.stdout.isatty():
        return os.get_terminal_size().columns
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() and int(asked) else None
