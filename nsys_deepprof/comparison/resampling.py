"""Are two sets of iteration times different, by how much, and how sure is that?

The effect is the ratio of the medians. Its interval is a bootstrap, widened by Student's t where
there are few iterations. The verdict needs a rank permutation test besides, which holds however
skewed the times are. Slow iterations come in spells, and then tell less than as many independent
ones: from `MIN_COUNT_OF_SPELLS` a side, both count as fewer, by the correlation of neighbours.
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
MIN_COUNT_OF_SPELLS = 20
"""With fewer times on a side their correlation cannot be told from chance: they count in full, and
only the interval minds spells, by resampling blocks of neighbours."""
RESAMPLES = 2_000
EXACT_SPLITS = 5_000
"""Up to so many ways to split the pooled times, all are tried; beyond, a random sample."""
NORMAL_FROM = 2_000
"""With more times the rank sum is as good as normal."""

# Bounds the memory and time of resampling, whatever the number of iterations.
_MAX_DRAWN = 8_000_000
_MIN_RESAMPLES = 200
_CHUNK = 2_000_000
_MAX_CORRELATION = 0.95


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
        one_a, one_b = _one_each(a), _one_each(b)
        spell = spell_length(one_a, one_b)
        low, high = _interval(a, b, confidence, spell, rng)
        p_value = permutation_p_value(one_a, one_b, rng, spell=spell)
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
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    confidence: float,
    spell: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Bootstrap-t interval of median(b) / median(a) - 1, symmetric in the logarithm."""
    few = min(len(a), len(b)) < MIN_COUNT_OF_SPELLS
    variance_a, variance_b = (
        spell * log_median_variance(x, rng, block=round(len(x) ** (1 / 3)) if few else 1)
        for x in (a, b)
    )
    effect = math.log(float(np.median(b)) / float(np.median(a)))
    variance = variance_a + variance_b
    if variance == 0:
        return math.expm1(effect), math.expm1(effect)
    # Welch and Satterthwaite: the degrees of freedom of a sum of two estimated variances.
    freedom_a, freedom_b = (max(1.0, len(x) / spell - 1) for x in (a, b))
    freedom = variance**2 / (variance_a**2 / freedom_a + variance_b**2 / freedom_b)
    half = math.sqrt(variance) * student_quantile((1 + confidence) / 2, freedom)
    return math.expm1(effect - half), math.expm1(effect + half)


def log_median_variance(
    values: NDArray[np.float64], rng: np.random.Generator, *, block: int
) -> float:
    """Variance of the logarithm of the median, by a circular bootstrap of `block` neighbours."""
    size = len(values)
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


def spell_length(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """How many neighbouring times tell as much as one independent time, at least 1.

    `(1 + r) / (1 - r)` for the correlation `r` of a time's rank with the next one's, pooled over
    the two sides: what a first-order autoregression adds to the variance of a mean. A drift counts
    as one long spell; a correlation within one standard error of 0 counts as none.
    """
    fewest = min(len(a), len(b))
    if fewest < MIN_COUNT_OF_SPELLS:
        return 1.0
    sides = [ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b))]
    # Each side has its own scale of ranks; weights make neither the louder.
    squares = [float((side**2).mean()) or 1.0 for side in sides]
    scaled = [side / math.sqrt(square) for side, square in zip(sides, squares, strict=True)]
    total = sum(float((side**2).sum()) for side in scaled)
    if total == 0:
        return 1.0
    together = sum(float((side[1:] * side[:-1]).sum()) for side in scaled) / total
    # Measured around its own mean, r comes out (1 + 4 r) / n too small (Marriott and Pope 1954).
    correlation = (together + 1 / fewest) / (1 - 4 / fewest)
    if correlation <= (len(a) + len(b)) ** -0.5:  # What independent times show by chance.
        return 1.0
    correlation = min(correlation, _MAX_CORRELATION)
    return (1 + correlation) / (1 - correlation)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places by size from 1, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[inverse.reshape(-1)]
    return ranks


def _one_each(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.ndim == 1:
        return values
    medians: NDArray[np.float64] = np.median(values, axis=1)
    return medians


def permutation_p_value(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    spell: float = 1.0,
) -> float:
    """Two-sided p-value of the rank sum: how often a random split of the pooled times into groups
    of these sizes sets the groups at least as far apart.

    Exact where there are few splits, from random ones beyond, and from the normal distribution for
    more than `NORMAL_FROM` times, or times in spells: `spell` times then tell as much as one.
    """
    pooled = np.concatenate((a, b))
    ranks = _ranks(pooled)
    ranks -= ranks.mean()
    # Sums of halves are exact in floating point: no tolerance is needed but for the mean.
    observed = abs(float(ranks[: len(a)].sum())) - 1e-6
    if spell == 1 and math.comb(len(pooled), len(a)) <= EXACT_SPLITS:
        chosen = np.array(list(combinations(range(len(pooled)), len(a))))
        sums = ranks[chosen].sum(axis=1)
        return float((np.abs(sums) >= observed).mean())
    if spell > 1 or len(pooled) > NORMAL_FROM:
        # The exact variance of the rank sum over all splits, ties included.
        size = len(pooled)
        variance = spell * float((ranks**2).sum()) * len(a) * len(b) / (size * (size - 1))
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
