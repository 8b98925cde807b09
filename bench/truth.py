"""What a config is truly worth on the simulated node, and the best there is: noise-free, over a grid of hot knobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from change.engine import Values
from change.knobs import problems
from change.server import Setting, Settings
from sim.scenario import SCENARIOS
from sim.truth import WARM_UP_SECONDS, simulate
from tuner.objective import Scale
from tuner.settings import Slo
from tuner.window import Interval, Metrics, measure

SECONDS = 600.0
"""Simulated seconds behind each truth: some 1,700 requests, the same for every config of a seed."""

CAPS = (0, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256, 320, 384, 512, 640, 768, 1024, 1536)
BUDGETS = (256, 512, 768, 1024, 1536, 2048, 4096, 8192)
LONG = (0, 96, 128, 192, 256, 384, 512, 768)
SEQS = (16, 24, 32, 48, 64, 96, 128, 256)
WATERMARKS = (0.0, 0.02, 0.05, 0.1)
HOST_AXES = (
    ("placement", "memory"),
    ("shared_memory", "transparent_hugepages"),
    ("khugepaged_defrag", "cpu_governor", "irq_placement"),
)
"""Knobs of the host that are looked over together."""


def host_axes(scenario: str, seed: int) -> dict[str, tuple[float, ...]]:
    """The places of each host knob that a campaign of the scenario moves; empty where the host is no part of it."""
    chosen = SCENARIOS[scenario]
    story = chosen.drawn(seed).host
    if story is None:
        return {}
    return {
        name: tuple(float(place) for place in range(len(texts)))
        for name, texts in story.options.items()
        if name in chosen.knobs
    }


@dataclass(frozen=True, slots=True)
class Truth:
    """A scenario's truth for one seed under one SLO and objective."""

    scenario: str
    seed: int
    slo: Slo
    scale: Scale
    max_regression: float
    settings: tuple[tuple[str, Setting], ...] = ()
    """Start-up settings over those of the launch, sorted by name."""
    seconds: float = SECONDS

    def under(self, settings: Settings) -> Truth:
        """The truth of the same seed started with other settings."""
        return replace(self, settings=tuple(sorted(settings.items())))

    @property
    def ceilings(self) -> Values:
        """The ceilings of the hot values under these settings."""
        scenario = SCENARIOS[self.scenario]
        if scenario.cold is None:
            return scenario.ceilings
        return scenario.cold.ceilings({**scenario.cold.launch, **dict(self.settings)}, scenario.ceilings)

    def metrics(self, values: Values) -> Metrics:
        """Noise-free figures of a config at mean load; configs that the engine serves alike are measured once."""
        scenario = SCENARIOS[self.scenario]
        served = scenario.served(scenario.effective(values))
        return dict(
            _metrics(
                self.scenario, self.seed, self.slo, tuple(sorted(served.items())), self.settings, self.seconds
            )
        )

    def score(self, values: Values) -> float:
        """Score on the objective's scale; minus infinity where it has none."""
        score = self.scale.score(self.metrics(values))
        return -math.inf if score is None else score

    def value(self, values: Values) -> float:
        """The objective itself, in its unit."""
        return self.scale.value(self.score(values))

    def admissible(self, values: Values, incumbent: Values) -> bool:
        """Whether a promotion of `values` would break a limit or lose too much, by noise-free figures.

        The incumbent is that of the launch settings.
        """
        mine, own = self.metrics(values), self.under({}).metrics(incumbent)
        for limit in self.slo.limits:
            bound = limit.seconds
            if own[limit.key] > bound:
                bound = own[limit.key] * (1 + self.max_regression)
            if mine.get(limit.key, math.inf) > bound:
                return False
        limited = {limit.metric for limit in self.slo.limits} | {
            name.split("_")[0] for name in self.scale.metrics
        }
        for name in ("ttft", "itl", "e2e"):
            for q in (50, 90, 99):
                key = f"{name}_p{q}_seconds"
                if name not in limited and mine.get(key, math.inf) > own[key] * (1 + self.max_regression):
                    return False
        return True

    def best(self, incumbent: Values) -> Values:
        """The best admissible config of the grid: cap and budget first, then the other knobs around the best few."""
        start = dict(incumbent)
        if host := host_axes(self.scenario, self.seed):
            found = [start]
            for pair in HOST_AXES:
                axes = {name: host[name] for name in pair if name in host}
                found = self._best_few(found, incumbent, axes)
            return max(found, key=self.score)
        found = self._best_few([start], incumbent, {"max_prefill_tokens": CAPS, "batch_max_tokens": BUDGETS})
        found = self._best_few(found, incumbent, {"long_prefill_tokens": LONG, "max_num_seqs": SEQS})
        found = self._best_few(found, incumbent, {"watermark": WATERMARKS})
        found = self._best_few(found, incumbent, {"max_prefill_tokens": CAPS})
        return max(found, key=self.score)

    def _best_few(
        self, centers: Iterable[Values], incumbent: Values, axes: Mapping[str, Sequence[float]]
    ) -> list[dict[str, float]]:
        scenario = SCENARIOS[self.scenario]
        points: list[dict[str, float]] = [dict(incumbent)]
        for center in centers:
            grid = [dict(center)]
            for name, places in axes.items():
                grid = [{**point, name: place} for point in grid for place in places]
            points.extend(grid)
        known = {tuple(sorted(point.items())): point for point in points}
        host = host_axes(self.scenario, self.seed)
        ceilings = {**self.ceilings, **{name: places[-1] for name, places in host.items()}}
        valid = [p for p in known.values() if not problems(p, ceilings, scenario.floors)]
        ranked = sorted(valid, key=self.score, reverse=True)
        return [point for point in ranked if self.admissible(point, incumbent)][:2] or [dict(incumbent)]


@lru_cache(maxsize=4096)
def _metrics(
    scenario: str,
    seed: int,
    slo: Slo,
    values: tuple[tuple[str, float], ...],
    settings: tuple[tuple[str, Setting], ...],
    seconds: float,
) -> tuple[tuple[str, float], ...]:
    page = simulate(scenario, seed, dict(values), seconds, settings=dict(settings))
    interval = Interval(1, 0.0, WARM_UP_SECONDS, WARM_UP_SECONDS + seconds)
    return tuple(measure(page.records, page.gaps[1], interval, slo).items())
