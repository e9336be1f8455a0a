"""The command line, run inside the test's process: fast, and with its warnings as errors."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class Ran:
    """What a command left: exit status, standard output (bytes) and standard error (text)."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    def json(self) -> Any:
        """The output as JSON; NaN and infinity are refused."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} in JSON")

        return json.loads(self.text, parse_constant=refuse)


def run(*arguments: object) -> Ran:
    """Run `nsys-deepprof` with these arguments."""
    from nsys_deepprof.cli import main

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.StringIO()
    code = 0
    with (
        mock.patch.object(sys, "argv", ["nsys-deepprof", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    assert isinstance(out.buffer, io.BytesIO)
    return Ran(code, out.buffer.getvalue(), err.getvalue())


def rows(*arguments: object) -> list[dict[str, Any]]:
    """The rows of a command's JSON; it must succeed and say nothing on standard error."""
    ran = run(*arguments, "--format", "json")
    assert (ran.code, ran.err) == (0, ""), ran.err
    found: list[dict[str, Any]] = ran.json()["rows"]
    return found
