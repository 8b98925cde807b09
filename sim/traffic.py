"""The users' requests: when they come and how long they are, drawn from a stream of their own.

The stream knows nothing of the config served, so equal seeds give equal arrivals whatever the knobs are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mix:
    """Lengths of requests: prompt tokens with their shares, outputs log-uniform between two bounds (tokens)."""

    prompts: tuple[tuple[int, float], ...] = ((128, 0.5), (512, 0.3), (1024, 0.2))
    output_low: int = 16
    output_high: int = 256
    cached_share: float = 0.0
    """Share of a prompt, in whole blocks of 128 tokens, that the prefix cache already holds."""

    @property
    def mean_prompt(self) -> float:
        """Tokens."""
        return sum(tokens * share for tokens, share in self.prompts)

    @property
    def mean_output(self) -> float:
        """Tokens."""
        if self.output_high <= self.output_low:
            return float(self.output_low)
        return (self.output_high - self.output_low) / math.log(self.output_high / self.output_low)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests come: mean rate per second, shape of the gaps between them, swing over the day, a shift midway."""

    rate: float
    burstiness: float = 1.0
    """Coefficient of variation of the gaps: 1 is Poisson, above it they come in bursts (gamma)."""
    amplitude: float = 0.0
    """Swing of the rate as a share of the mean (0.3 is 30%), sinusoidal."""
    period_seconds: float = 7200.0
    mix: Mix = field(default_factory=Mix)
    shift_seconds: float | None = None
    """Time after the start at which rate and mix become those below."""
    rate_after: float | None = None
    mix_after: Mix | None = None
    clients: int = 0
    """With a number, a closed loop: that many users, each of whom asks again `think_seconds` after an answer."""
    think_seconds: float = 1.0


class Traffic:
    """An endless stream of requests, handed out in chunks of parallel lists."""

    CHUNK = 512

    def __init__(self, arrivals: Arrivals, rng: np.random.Generator, start: float) -> None:
        """Begin at `start` (Unix seconds)."""
        self.clients = arrivals.clients
        self.think_seconds = arrivals.think_seconds
        self.start = start
        self._arrivals = arrivals
        self._rng = rng
        self._phase = float(rng.uniform(0.0, 2 * math.pi)) if arrivals.amplitude else 0.0
        self._mass = 0.0  # expected number of requests up to the last one drawn

    def pause_seconds(self, time: float) -> float:
        """How long a user of the closed loop who was answered at `time` (Unix seconds) thinks."""
        return self.think_seconds

    def chunk(self) -> tuple[list[float], list[int], list[int], list[int]]:
        """The next arrivals: times (Unix seconds), prompt, output and cached tokens."""
        a, rng, n = self._arrivals, self._rng, self.CHUNK
        shape = 1.0 / a.burstiness**2
        gaps = rng.exponential(1.0, n) if a.burstiness == 1.0 else rng.gamma(shape, 1.0 / shape, n)
        which, length = rng.random(n), rng.random(n)
        mass = self._mass + np.cumsum(gaps)
        self._mass = float(mass[-1])
        since = self._when(mass)
        prompts, outputs, cached = _lengths(a.mix, which, length)
        if a.shift_seconds is not None and a.mix_after is not None and since[-1] >= a.shift_seconds:
            later = _lengths(a.mix_after, which, length)
            after = since >= a.shift_seconds
            prompts = np.where(after, later[0], prompts)
            outputs = np.where(after, later[1], outputs)
            cached = np.where(after, later[2], cached)
        return (self.start + since).tolist(), prompts.tolist(), outputs.tolist(), cached.tolist()

    def _when(self, mass: Floats) -> Floats:
        """Seconds after the start at which the expected number of requests reaches `mass`."""
        a = self._arrivals
        if a.shift_seconds is not None and a.rate_after is not None:
            before = a.rate * a.shift_seconds
            return np.where(mass < before, mass / a.rate, a.shift_seconds + (mass - before) / a.rate_after)
        if not a.amplitude:
            return mass / a.rate
        # rate(t) = r (1 + A sin(wt + p)); its integral is inverted by Newton's steps, which converge as A < 1.
        w, p = 2 * math.pi / a.period_seconds, self._phase
        t = mass / a.rate
        for _ in range(40):
            expected = a.rate * (t + a.amplitude / w * (math.cos(p) - np.cos(w * t + p)))
            move = (expected - mass) / (a.rate * (1 + a.amplitude * np.sin(w * t + p)))
            t = t - move
            if float(np.max(np.abs(move))) < 1e-7:
                break
        return np.maximum.accumulate(t)


def _lengths(
    mix: Mix, which: Floats, length: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    edges = np.cumsum([share for _, share in mix.prompts])
    sizes = np.array([tokens for tokens, _ in mix.prompts], dtype=np.int64)
    prompts = sizes[np.minimum(np.searchsorted(edges, which, side="right"), len(sizes) - 1)]
    spread = math.log((mix.output_high + 1) / mix.output_low)
    outputs = np.minimum((mix.output_low * np.exp(length * spread)).astype(np.int64), mix.output_high)
    cached = (prompts * mix.cached_share).astype(np.int64) // 128 * 128
    return prompts, outputs, np.minimum(cached, prompts - 1)
