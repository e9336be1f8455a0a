"""Are two sets of iteration times different, by how much, and how sure is that?

The effect is the ratio of the medians. Its interval is a bootstrap over blocks of neighbouring
iterations, because slow ones come in spells; widened by Student's t where there are few. The
verdict needs a rank permutation test besides, which holds however skewed the times are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Verdict = Literal["faster", "slower", "same", "inconclusive"]

CONFIDENCE = 0.95
MAX_P_VALUE = 0.03
"""Of the permutation test; a little over 2/70, the least that four against four can give."""
MIN_EFFECT_SHARE = 0.005
"""A smaller change of the median is called the same, however certain it is."""
SAME_WITHIN_SHARE = 0.05
"""`same` means that a change of more than this is ruled out by the interval."""
MIN_COUNT = 4
RESAMPLES = 2_000
EXACT_SPLITS = 5_000
"""Up to so many ways to split the pooled times, all are tried; beyond, a random sample."""
NORMAL_FROM = 2_000
"""With more times the rank sum is as good as normal."""

# Bounds the memory and time of resampling, whatever the number of iterations.
_MAX_DRAWN = 8_000_000
_MIN_RESAMPLES = 200
_CHUNK = 2_000_000


@dataclass(frozen=True)
class Difference:
    """How the times B compare with the times A.

    `delta_share` is median B / median A - 1, `ci_low` and `ci_high` its interval at `confidence`,
    `p_value` that of the permutation test. Null where a side has too few times to tell; `reason`
    says why a verdict is inconclusive.
    """

    a_count: int
    b_count: int
    a_median_ns: float | None
    b_median_ns: float | None
    delta_share: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    confidence: float
    verdict: Verdict
    reason: str | None


def compare_durations(
    a_ns: NDArray[np.integer | np.floating],
    b_ns: NDArray[np.integer | np.floating],
    *,
    confidence: float = CONFIDENCE,
    max_p_value: float = MAX_P_VALUE,
    min_effect_share: float = MIN_EFFECT_SHARE,
    same_within_share: float = SAME_WITHIN_SHARE,
    seed: int = 0,
) -> Difference:
    """Compare two sets of durations, each in the order in which they were measured.

    Each is one duration an iteration, or a row an iteration of the same duration as measured from
    several places of it: the median is then over all, iterations are resampled whole, and the
    permutation test is about the rows' medians.

    `slower` or `faster`: the interval excludes 0, the permutation test's p-value is at most
    `max_p_value`, and the medians differ by at least `min_effect_share`. `same`: none of that, and
    the interval lies within +-`same_within_share`. Else, or with fewer than `MIN_COUNT` durations
    on a side, `inconclusive`. The same input gives the same output.
    """
    a, b = a_ns.astype(np.float64), b_ns.astype(np.float64)
    median_a = float(np.median(a)) if len(a) else None
    median_b = float(np.median(b)) if len(b) else None
    delta = median_b / median_a - 1 if median_a and median_b is not None else None
    low = high = p_value = None
    if min(len(a), len(b)) < MIN_COUNT or not (median_a and median_b):
        fewest = min(len(a), len(b))
        verdict: Verdict = "inconclusive"
        reason: str | None = (
            "no comparable iterations on one side"
            if fewest == 0
            else f"{fewest} comparable iterations on one side, at least {MIN_COUNT} are needed"
        )
    else:
        rng = np.random.default_rng(seed)
        low, high = _interval(a, b, confidence, rng)
        p_value = permutation_p_value(_one_each(a), _one_each(b), rng)
        assert delta is not None
        verdict, reason = _verdict(
            delta,
            (low, high),
            unlikely=p_value <= max_p_value,
            min_effect=min_effect_share,
            within=same_within_share,
        )
    return Difference(
        len(a), len(b), median_a, median_b, delta, low, high, p_value, confidence, verdict, reason
    )


def _verdict(
    delta: float,
    interval: tuple[float, float],
    *,
    unlikely: bool,
    min_effect: float,
    within: float,
) -> tuple[Verdict, str | None]:
    low, high = interval
    if (low > 0 or high < 0) and unlikely and abs(delta) >= min_effect:
        return ("slower" if delta > 0 else "faster"), None
    if low >= -within and high <= within:
        return "same", None
    return "inconclusive", (
        f"the interval reaches from {100 * low:+.1f} % to {100 * high:+.1f} %: the iterations vary "
        "too much, or are too few"
    )


def _interval(
    a: NDArray[np.float64], b: NDArray[np.float64], confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Bootstrap-t interval of median(b) / median(a) - 1, symmetric in the logarithm."""
    variance_a, variance_b = (log_median_variance(x, rng) for x in (a, b))
    effect = math.log(float(np.median(b)) / float(np.median(a)))
    variance = variance_a + variance_b
    if variance == 0:
        return math.expm1(effect), math.expm1(effect)
    # Welch and Satterthwaite: the degrees of freedom of a sum of two estimated variances.
    freedom = variance**2 / (variance_a**2 / (len(a) - 1) + variance_b**2 / (len(b) - 1))
    half = math.sqrt(variance) * student_quantile((1 + confidence) / 2, freedom)
    return math.expm1(effect - half), math.expm1(effect + half)


def log_median_variance(values: NDArray[np.float64], rng: np.random.Generator) -> float:
    """Variance of the logarithm of the median, by a circular block bootstrap."""
    size = len(values)
    block = max(1, round(size ** (1 / 3)))
    blocks = -(-size // block)
    resamples = min(RESAMPLES, max(_MIN_RESAMPLES, _MAX_DRAWN // values.size))
    rows = max(1, _CHUNK // values.size)
    medians = []
    for begin in range(0, resamples, rows):
        count = min(rows, resamples - begin)
        starts = rng.integers(0, size, (count, blocks, 1))
        index = ((starts + np.arange(block)) % size).reshape(count, -1)[:, :size]
        medians.append(np.median(values[index].reshape(count, -1), axis=1))
    # A resample varies (n - 1) / n as much as a sample does.
    return float(np.log(np.concatenate(medians)).var()) * size / (size - 1)


def _one_each(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.ndim == 1:
        return values
    medians: NDArray[np.float64] = np.median(values, axis=1)
    return medians


def permutation_p_value(
    a: NDArray[np.float64], b: NDArray[np.float64], rng: np.random.Generator
) -> float:
    """Two-sided p-value of the rank sum: how often a random split of the pooled times into groups
    of these sizes sets the groups at least as far apart.

    Exact where there are few splits, from random ones beyond, and from the normal distribution for
    more than `NORMAL_FROM` times.
    """
    pooled = np.concatenate((a, b))
    _, inverse, counts = np.unique(pooled, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse.reshape(-1)]
    ranks -= ranks.mean()
    # Sums of halves are exact in floating point: no tolerance is needed but for the mean.
    observed = abs(float(ranks[: len(a)].sum())) - 1e-6
    if math.comb(len(pooled), len(a)) <= EXACT_SPLITS:
        chosen = np.array(list(combinations(range(len(pooled)), len(a))))
        sums = ranks[chosen].sum(axis=1)
        return float((np.abs(sums) >= observed).mean())
    if len(pooled) > NORMAL_FROM:
        # The exact variance of the rank sum over all splits, ties included.
        size = len(pooled)
        variance = float((ranks**2).sum()) * len(a) * len(b) / (size * (size - 1))
        return math.erfc(max(observed, 0.0) / math.sqrt(2 * variance)) if variance else 1.0
    extreme = 0
    rows = max(1, _CHUNK // len(pooled))
    for begin in range(0, RESAMPLES, rows):
        count = min(rows, RESAMPLES - begin)
        shuffled = rng.permuted(np.broadcast_to(ranks, (count, len(ranks))), axis=1)
        sums = shuffled[:, : len(a)].sum(axis=1)
        extreme += int((np.abs(sums) >= observed).sum())
    return (1 + extreme) / (1 + RESAMPLES)


def student_quantile(probability: float, freedom: float) -> float:
    """Quantile above the median of Student's t distribution, by Hill's algorithm 396 (1970).

    Good to four digits; `freedom` below 1 counts as 1.
    """
    n = max(1.0, freedom)
    tail = 2 * (1 - probability)
    if n < 1.5:
        return 1 / math.tan(tail * math.pi / 2)
    if n < 2.5:
        return math.sqrt(2 / (tail * (2 - tail)) - 2)
    a = 1 / (n - 0.5)
    b = 48 / a**2
    c = ((20_700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * n
    y = (d * tail) ** (2 / n)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(tail / 2)
        y = x * x
        if n < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = (
            (1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1
        ) * (n + 1) / (n + 2) + 1 / y
    return math.sqrt(n * y)
