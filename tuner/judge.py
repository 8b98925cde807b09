"""Statistics of paired gains: the signed-rank test, its estimate and interval, and looks fixed beforehand.

Sources: Wilcoxon signed-rank with exact null distribution; Hodges-Lehmann estimate and the interval from Walsh averages
(Hollander and Wolfe, Nonparametric Statistical Methods, ch. 3); Pocock's constant nominal level over three looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LOOKS = (12, 18, 24)
"""Pair counts at which a confirmation is judged."""
CONFIRM_LEVEL = 0.025
"""One-sided error of one confirmation over all its looks."""
NOMINAL_LEVEL = 0.011
"""One-sided level of each look: Pocock's for three looks at 0.025 in all, for equal spacing; the looks here are closer
to one another, so the true error is a little smaller."""
POWER_FACTOR = 3.2
"""(z(1 - 0.011) + z(0.8)) / sqrt(0.955): a gain of this times sd / sqrt(pairs) is found with 80% power."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Hodges-Lehmann median of paired gains with its interval at the level of one look, on the gain scale."""

    median: float
    low: float
    high: float
    pairs: int
    p_value: float


@lru_cache(maxsize=64)
def _null_tail(n: int) -> tuple[float, ...]:
    """P(W >= w) for w = 0 .. n(n+1)/2 of the signed-rank statistic under symmetry about zero, without ties."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(counts)
        shifted[rank:] = counts[: len(counts) - rank]
        counts = (counts + shifted) / 2.0
    return tuple(np.cumsum(counts[::-1])[::-1])


def signed_rank_p(gains: Sequence[float]) -> float:
    """One-sided p that the gains are symmetric about zero, against greater; exact but for ties (mid-ranks).

    Zeros stay in and count half, as Pratt has it, so that equal windows never look like evidence.
    """
    n = len(gains)
    if n == 0:
        return 1.0
    values = np.asarray(gains, dtype=float)
    sizes = np.abs(values)
    order = np.sort(sizes)
    ranks = (np.searchsorted(order, sizes, "left") + np.searchsorted(order, sizes, "right") + 1) / 2.0
    statistic = float(ranks[values > 0].sum() + ranks[values == 0].sum() / 2.0)
    return float(_null_tail(n)[min(math.floor(statistic), n * (n + 1) // 2)])


def estimate(gains: Sequence[float], level: float = NOMINAL_LEVEL) -> Estimate:
    """Median and interval of paired gains, `level` one-sided on either side; needs at least one gain."""
    values = np.asarray(gains, dtype=float)
    n = len(values)
    if n == 0:
        raise ValueError("an estimate needs at least one pair")
    left, right = np.triu_indices(n)
    walsh = np.sort((values[left] + values[right]) / 2.0)
    tail = _null_tail(n)
    # The interval runs from the k-th to the k-th last Walsh average, k the largest with P(W <= k - 1) <= level.
    k = sum(1.0 - above <= level for above in tail[1:])
    low, high = (walsh[k - 1], walsh[len(walsh) - k]) if k > 0 else (-math.inf, math.inf)
    return Estimate(float(np.median(walsh)), float(low), float(high), n, signed_rank_p(gains))


def detectable_gain(sd: float, pairs: int = LOOKS[-1]) -> float:
    """Gain that a confirmation of `pairs` pairs of standard deviation `sd` finds in 8 of 10 cases."""
    return POWER_FACTOR * sd / math.sqrt(pairs)
