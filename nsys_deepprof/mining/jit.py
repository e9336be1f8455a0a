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
    ways run the same source text, so they give the same result. Where the machine code cannot be
    kept (a full disk, a read-only installation) it is made anew in every process.
    """

    @cache
    def machine_code(*, kept: bool) -> Callable[P, R]:
        import numba

        return cast("Callable[P, R]", numba.njit(cache=kept, nogil=True)(function))

    kept = True

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal kept
        if len(args[0]) < PLAIN_LIMIT:  # type: ignore[arg-type]
            return function(*args, **kwargs)
        try:
            return machine_code(kept=kept)(*args, **kwargs)
        except (OSError, RuntimeError):
            # numba says so before it runs anything: nothing has been changed by the first try.
            if not kept:
                raise
            kept = False
            return machine_code(kept=kept)(*args, **kwargs)

    return run
