"""Compiled loops: numba when it pays, the same function as plain Python when the input is small."""

from __future__ import annotations

from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

# Loading numba and its cached code costs about half a second, a first compilation several:
# a plain loop over fewer elements than this is done sooner.
PLAIN_LIMIT = 3_000


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a loop over arrays so that it is compiled (and the machine code cached on disk).

    The size that decides is the length of the first argument, which has to be an array. Both
    ways run the same source text, so they give the same result.
    """

    @cache
    def machine_code() -> Callable[P, R]:
        import numba

        try:
            made = numba.njit(cache=True, nogil=True)(function)
        except RuntimeError:
            # No folder where the machine code could be kept: it is made again in each process.
            made = numba.njit(nogil=True)(function)
        return cast("Callable[P, R]", made)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        size = len(args[0])  # type: ignore[arg-type]
        return (function if size < PLAIN_LIMIT else machine_code())(*args, **kwargs)

    return run
