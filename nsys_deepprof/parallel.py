"""Run jobs side by side and take their results in order."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


def in_order(jobs: Sequence[Callable[[], T]], *, workers: int) -> Iterator[T]:
    """The results of `jobs` in their order, `workers` of them at work at a time.

    At most `workers` results wait to be taken, so memory does not grow with the number of jobs.
    The first error stops the rest.
    """
    if workers < 2 or len(jobs) < 2:
        for job in jobs:
            yield job()
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(job))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
