"""Taking the traffic's own luck out of a pair: regression of gains on what differed in the arrivals.

The coefficients come from pairs that were scored before the ones they are applied to, and order inside a block is
random, so an adjusted gain stays symmetric about zero where two configs are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NAMES = (
    "prompt_tokens_per_second",
    "requests_per_second",
    "output_tokens_per_request",
    "offered_wait_seconds",
    "concurrent_start",
)
RIDGE = 3.0
"""Weight of the pull to zero, in observations: with few pairs the adjustment is small."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """A pair's raw gain, whose pair it is (0 for the incumbent against itself) and what differed in the traffic."""

    trial: int
    gain: float
    difference: tuple[float, ...]


def contrast(
    trial: int, gain: float, candidate: Mapping[str, float], incumbent: Mapping[str, float]
) -> Contrast:
    """Build the contrast of two windows from their covariates; differences are relative to the two windows' mean."""
    difference = []
    for name in NAMES:
        one, other = candidate.get(name, 0.0), incumbent.get(name, 0.0)
        size = abs(one) + abs(other)
        difference.append(2.0 * (one - other) / size if size > 0 else 0.0)
    return Contrast(trial, gain, tuple(difference))


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Coefficients per covariate and the noise that stays once they are applied."""

    coefficients: tuple[float, ...]
    sd: float

    def gain(self, pair: Contrast) -> float:
        """The pair's gain less what its traffic explains."""
        return pair.gain - float(np.dot(self.coefficients, pair.difference))


def fit(pairs: Sequence[Contrast], prior_sd: float) -> Adjustment:
    """Ridge regression within trials; `prior_sd` is the noise assumed before there are pairs."""
    by_trial: dict[int, list[Contrast]] = {}
    for pair in pairs:
        by_trial.setdefault(pair.trial, []).append(pair)
    rows: list[NDArray[np.float64]] = []
    gains: list[NDArray[np.float64]] = []
    for trial, group in by_trial.items():
        x = np.array([pair.difference for pair in group])
        y = np.array([pair.gain for pair in group])
        if trial != 0:
            # A trial's own effect is not noise; the incumbent against itself has none.
            x, y = x - x.mean(axis=0), y - y.mean()
        rows.append(x)
        gains.append(y)
    count = len(pairs)
    freedom = count - sum(trial != 0 for trial in by_trial)
    if freedom < 6:
        return Adjustment((0.0,) * len(NAMES), prior_sd)
    x, y = np.vstack(rows), np.concatenate(gains)
    spread = np.sqrt((x**2).mean(axis=0)) + 1e-9
    z = x / spread
    beta = np.linalg.solve(z.T @ z + RIDGE * np.eye(len(NAMES)), z.T @ y)
    residual = y - z @ beta
    used = float(np.trace(z @ np.linalg.solve(z.T @ z + RIDGE * np.eye(len(NAMES)), z.T)))
    variance = float(residual @ residual) / max(freedom - used, 1.0)
    # The calibrated noise counts as five observations, so that a few lucky pairs do not look like certainty.
    sd = float(np.sqrt((variance * freedom + prior_sd**2 * 5) / (freedom + 5)))
    return Adjustment(tuple(beta / spread), sd)
