"""Stints of several configs in turn: the effect of each with drift taken out, and how much restarts alone differ.

No two starts of one engine are equally fast, so that windows within a stint say little of the difference between two
configs: what counts is the spread between stints of the same config. With so few of them it is shrunk towards what is
usual, and never below what the windows themselves leave open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.outer.stint import Score

USUAL_SD = 0.02
"""Between-restart standard deviation of a rate's or latency's logarithm where nothing is known of it yet."""
USUAL_WEIGHT = 2.0
"""How many stints beyond the first of each config the usual figure weighs."""


@dataclass(frozen=True, slots=True)
class Served:
    """One stint in a campaign: which config it was (0 is the incumbent), and what it showed."""

    config: int
    score: Score


@dataclass(frozen=True, slots=True)
class Comparison:
    """Gain of a config over the incumbent on the objective's scale, better is positive.

    `sd` is that between restarts of one config, `error` the gain's own standard error, `alternations` how often the
    candidate served after the incumbent did.
    """

    gain: float
    sd: float
    error: float
    alternations: int

    def holds(self, least: float, deviations: float) -> bool:
        """Whether the gain is at least `least` and that many between-restart standard deviations."""
        return self.alternations >= 2 and self.gain >= max(least, deviations * self.sd)


def compare(stints: Sequence[Served], config: int, usual_sd: float = USUAL_SD) -> Comparison | None:
    """Compare a config with the incumbent; None until both have served.

    A straight drift over the stints is fitted once there are enough of them to tell it from the configs.
    """
    configs = sorted({stint.config for stint in stints})
    if 0 not in configs or config not in configs or config == 0:
        return None
    scores = np.array([stint.score.score for stint in stints])
    times = np.array([stint.score.time for stint in stints])
    columns = [np.array([float(stint.config == c) for stint in stints]) for c in configs]
    if len(stints) >= len(configs) + 2:
        spread = float(np.ptp(times)) or 1.0
        columns.append((times - times.mean()) / spread)
    design = np.stack(columns, axis=1)
    found, _, rank, _ = np.linalg.lstsq(design, scores, rcond=None)
    residuals = scores - design @ found
    free = len(stints) - int(rank)
    pooled = (USUAL_WEIGHT * usual_sd**2 + float(residuals @ residuals)) / (USUAL_WEIGHT + free)
    within = float(np.mean([stint.score.error**2 for stint in stints]))
    sd = math.sqrt(max(pooled, within))
    contrast = np.zeros(design.shape[1])
    contrast[configs.index(config)], contrast[configs.index(0)] = 1.0, -1.0
    error = sd * math.sqrt(float(contrast @ np.linalg.pinv(design.T @ design) @ contrast))
    return Comparison(float(contrast @ found), sd, error, _alternations(stints, config))


def _alternations(stints: Sequence[Served], config: int) -> int:
    """How often the config served with a stint of the incumbent since its last one."""
    count, between = 0, False
    for stint in stints:
        if stint.config == 0:
            between = True
        elif stint.config == config and between:
            count, between = count + 1, False
    return count


def other_loss(stints: Sequence[Served], config: int, names: Sequence[str]) -> tuple[str, float] | None:
    """The other metric that a config loses most of, and the loss on the log scale (positive); None if none is known."""
    worst: tuple[str, float] | None = None
    for name in names:
        mine = [s.score.others[name] for s in stints if s.config == config and name in s.score.others]
        own = [s.score.others[name] for s in stints if s.config == 0 and name in s.score.others]
        if mine and own:
            loss = sum(own) / len(own) - sum(mine) / len(mine)
            if worst is None or loss > worst[1]:
                worst = (name, loss)
    return worst
