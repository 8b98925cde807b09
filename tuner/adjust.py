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
    "temperature_celsius",
    "prompt_tokens_per_request",
)
"""What no config can change within a window. How many requests run at its start is not among them: that is the
config's own doing, and taking it out would take out a part of the gain."""
RATES = frozenset({"prompt_tokens_per_second", "requests_per_second", "offered_wait_seconds"})
"""Where a queue stands, how much arrives may be the config's own doing too: users who wait for an answer before they
ask again come as fast as they are served. There only the lengths of what they ask are the traffic's luck; where
none stands they are in the rates already."""
RIDGE = 3.0
"""Weight of the pull to zero, in observations: with few pairs the adjustment is small."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """A pair's raw gains by metric, whose it is (0: the incumbent against itself), what differed in the traffic."""

    trial: int
    gains: Mapping[str, float]
    difference: tuple[float, ...]


def contrast(
    trial: int,
    gains: Mapping[str, float],
    candidate: Mapping[str, float],
    incumbent: Mapping[str, float],
    *,
    saturated: bool = False,
) -> Contrast:
    """Build the contrast of two windows from their covariates; differences are relative to the two windows' mean.

    `saturated` says that a queue stands under the incumbent.
    """
    left_out = RATES if saturated else {"prompt_tokens_per_request"}
    difference = []
    for name in NAMES:
        # Unknown on one side says nothing: it is no difference.
        known = name in candidate and name in incumbent and name not in left_out
        one, other = (candidate[name], incumbent[name]) if known else (0.0, 0.0)
        size = abs(one) + abs(other)
        difference.append(2.0 * (one - other) / size if size > 0 else 0.0)
    return Contrast(trial, gains, tuple(difference))


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Coefficients per covariate for one metric, and the noise of a pair that stays once they are applied."""

    metric: str
    coefficients: tuple[float, ...]
    sd: float

    def gain(self, pair: Contrast) -> float:
        """The pair's gain less what its traffic explains."""
        return pair.gains[self.metric] - float(np.dot(self.coefficients, pair.difference))


def unadjusted(metric: str, sd: float) -> Adjustment:
    """What is known before there are pairs."""
    return Adjustment(metric, (0.0,) * len(NAMES), sd)


LEAST_FREEDOM = 6
"""Pairs beyond one for each trial that a fit needs."""


def enough(pairs: Sequence[Contrast], metric: str) -> bool:
    """Whether there are enough pairs for `fit` to look at them at all."""
    return _freedom(_by_trial(pairs, metric)) >= LEAST_FREEDOM


def fit(pairs: Sequence[Contrast], metric: str, prior_sd: float) -> Adjustment:
    """Ridge regression within trials; `prior_sd` is the noise assumed before there are pairs.

    A trial's own effect is not noise, so each trial is centred on its mean; the incumbent against itself has none.
    Coefficients that would not have helped on trials they had not seen are zero: few pairs cannot carry many.
    """
    by_trial = _by_trial(pairs, metric)
    freedom = _freedom(by_trial)
    if freedom < LEAST_FREEDOM:
        return unadjusted(metric, prior_sd)
    rows: list[NDArray[np.float64]] = []
    gains: list[NDArray[np.float64]] = []
    for trial, group in by_trial.items():
        x = np.array([pair.difference for pair in group])
        y = np.array([pair.gains[metric] for pair in group])
        rows.append(x - x.mean(axis=0) if trial else x)
        gains.append(y - y.mean() if trial else y)
    x, y = np.vstack(rows), np.concatenate(gains)
    spread = np.sqrt((x**2).mean(axis=0)) + 1e-9
    z = x / spread
    inverse = np.linalg.inv(z.T @ z + RIDGE * np.eye(len(NAMES)))
    beta = inverse @ z.T @ y
    unseen = _unseen(z, inverse, y - z @ beta, by_trial)
    plain = float(y @ y)
    helps = unseen < plain
    variance = (unseen if helps else plain) / freedom
    # The calibrated noise counts as five observations, so that a few lucky pairs do not look like certainty.
    sd = float(np.sqrt((variance * freedom + prior_sd**2 * 5) / (freedom + 5)))
    if not helps:
        return unadjusted(metric, sd)
    return Adjustment(metric, tuple(float(b) for b in beta / spread), sd)


def _by_trial(pairs: Sequence[Contrast], metric: str) -> dict[int, list[Contrast]]:
    found: dict[int, list[Contrast]] = {}
    for pair in pairs:
        if metric in pair.gains:
            found.setdefault(pair.trial, []).append(pair)
    return found


def _freedom(by_trial: Mapping[int, Sequence[Contrast]]) -> int:
    return sum(len(group) - (trial != 0) for trial, group in by_trial.items())


def _unseen(
    z: NDArray[np.float64],
    inverse: NDArray[np.float64],
    residual: NDArray[np.float64],
    by_trial: Mapping[int, Sequence[Contrast]],
) -> float:
    """Sum of squares of what each trial's pairs would have been off by, had the coefficients not seen that trial.

    Allen's PRESS by groups: pairs that are centred together are left out together. The incumbent's pairs with itself
    have no mean of their own and are left out one by one.
    """
    total = 0.0
    start = 0
    for trial, group in by_trial.items():
        step = len(group) if trial else 1
        for first in range(start, start + len(group), step):
            part = slice(first, first + step)
            hat = z[part] @ inverse @ z[part].T
            total += float(np.sum(np.linalg.solve(np.eye(step) - hat, residual[part]) ** 2))
        start += len(group)
    return total
