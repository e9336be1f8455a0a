"""Compiled loops where the machine code cannot be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

from nsys_deepprof.mining.jit import PLAIN_LIMIT, compiled

if TYPE_CHECKING:
    from collections.abc import Callable


def total(values: Any) -> int:
    return int(values.sum())


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("no place")]
)
def test_a_loop_runs_where_its_code_cannot_be_kept(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []

    def njit(*, cache: bool, nogil: bool) -> Callable[..., Any]:
        def compile_(function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any) -> Any:
                tried.append(cache)
                if cache:
                    raise error
                return function(*args)

            return run

        return compile_

    monkeypatch.setattr(numba, "njit", njit)
    loop = compiled(total)
    values = np.arange(PLAIN_LIMIT)
    assert [loop(values), loop(values)] == [total(values)] * 2
    assert tried == [True, False, False]


def test_an_error_of_the_loop_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def njit(**_: bool) -> Callable[..., Any]:
        return lambda function: function

    def broken(values: Any) -> int:
        raise RuntimeError("broken")

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.raises(RuntimeError, match="broken"):
        compiled(broken)(np.arange(PLAIN_LIMIT))


def test_short_input_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "njit", None)
    assert compiled(total)(np.arange(PLAIN_LIMIT - 1)) == total(np.arange(PLAIN_LIMIT - 1))
