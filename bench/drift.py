"""Traffic that drifts: within an hour requests become long and rare, and short and many again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sim.traffic import Arrivals, Mix, Traffic


@dataclass(frozen=True, slots=True)
class Drift:
    """Two kinds of hours, and the time from the one to the other and back."""

    short: Mix
    long: Mix
    short_rate: float
    """Requests per second while nearly all are short."""
    long_rate: float
    period_seconds: float = 3600.0

    def share_long(self, since: float) -> float:
        """Share of the requests that are of the long kind, `since` seconds after the start."""
        return 0.5 - 0.5 * math.cos(2 * math.pi * since / self.period_seconds)

    def rate(self, since: float) -> float:
        """Arrivals per second."""
        share = self.share_long(since)
        return math.exp((1 - share) * math.log(self.short_rate) + share * math.log(self.long_rate))


class DriftingTraffic(Traffic):
    """An endless stream of requests whose lengths and rate follow a drift."""

    def __init__(self, drift: Drift, rng: np.random.Generator, start: float = 0.0) -> None:
        """Begin at `start` (Unix seconds) with short requests."""
        super().__init__(Arrivals(drift.short_rate), rng, start)
        self._drift = drift
        self._since = 0.0

    def chunk(self) -> tuple[list[float], list[int], list[int], list[int]]:
        """The next arrivals: times, prompt, output and cached tokens."""
        times, prompts, outputs = [], [], []
        drift, rng = self._drift, self._rng
        draws = rng.exponential(1.0, self.CHUNK), *(rng.random(self.CHUNK) for _ in range(3))
        for gap, kind, which, length in zip(*(draw.tolist() for draw in draws), strict=True):
            self._since += gap / drift.rate(self._since)
            mix = drift.long if kind < drift.share_long(self._since) else drift.short
            times.append(self.start + self._since)
            prompts.append(_prompt(mix, which))
            outputs.append(_output(mix, length))
        return times, prompts, outputs, [0] * self.CHUNK


def _prompt(mix: Mix, which: float) -> int:
    below = 0.0
    for tokens, share in mix.prompts:
        below += share
        if which < below:
            return tokens
    return mix.prompts[-1][0]


def _output(mix: Mix, length: float) -> int:
    spread = math.log((mix.output_high + 1) / mix.output_low)
    return min(int(mix.output_low * math.exp(length * spread)), mix.output_high)
