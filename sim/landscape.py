"""Prints what a scenario's landscape is like: start, best, gain, noise and speed for each seed.

`python -m sim.landscape --scenario default --seeds 101-110`. It balances the scenario and shows that it is a fair one;
the tuner never sees any of it.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from change.engine import GAP_BASE_SECONDS, GAP_RATIO, RequestPage, Values
from sim.node import Node
from sim.scenario import SCENARIOS, Scenario, capacity, stream
from sim.truth import simulate

GRID: Mapping[str, tuple[float, ...]] = {
    "batch_max_tokens": (256, 320, 384, 512, 1024, 2048, 8192),
    "max_prefill_tokens": (0, 128, 160, 192, 224, 256, 288, 320, 352, 384, 448, 512, 768, 1024),
    "long_prefill_tokens": (0, 64, 128, 192, 256, 384, 512),
    "max_num_seqs": (24, 28, 32, 36, 40, 48, 64, 256),
    "watermark": (0.0, 0.02, 0.05, 0.1),
}
PRIORS: tuple[Values, ...] = (
    {"max_prefill_tokens": 512, "batch_max_tokens": 8192},
    {"max_prefill_tokens": 512},
    {"batch_max_tokens": 8192},
    {"batch_max_tokens": 4096},
)
"""What the field's guides would try first."""
WINDOW_SECONDS = 30.0
OBJECTIVE = "objective"


def quantile_of_gaps(gaps: Mapping[int, int], q: float) -> float:
    """Quantile of token gaps in seconds, interpolated within its bucket on the log scale."""
    total = sum(gaps.values())
    if not total:
        return math.nan
    left = q * total
    for bucket in sorted(gaps):
        if left <= gaps[bucket]:
            return float(GAP_BASE_SECONDS * GAP_RATIO ** (bucket + left / gaps[bucket]))
        left -= gaps[bucket]
    return math.nan


def objective(first_tokens: Sequence[float], gaps: Mapping[int, int], q: float = 0.9) -> float:
    """Geometric mean of the quantiles of TTFT and ITL in seconds; lower is better."""
    if not first_tokens:
        return math.inf
    ttft = float(np.quantile(np.asarray(first_tokens), q))
    return math.exp(0.5 * (math.log(ttft) + math.log(quantile_of_gaps(gaps, q))))


def figures(page: RequestPage) -> dict[str, float]:
    """Quantiles of TTFT, ITL and end-to-end time of a steady run in seconds, and the objective."""
    ttft = np.array([r.first_token - r.arrival for r in page.records if r.first_token is not None])
    e2e = np.array([r.finish - r.arrival for r in page.records])
    gaps = page.gaps.get(1, {})
    found = {OBJECTIVE: objective(ttft.tolist(), gaps)}
    for q in (0.5, 0.9, 0.99):
        found[f"ttft_p{100 * q:.0f}"] = float(np.quantile(ttft, q))
        found[f"e2e_p{100 * q:.0f}"] = float(np.quantile(e2e, q))
        found[f"itl_p{100 * q:.0f}"] = quantile_of_gaps(gaps, q)
    return found


def score(page: RequestPage) -> float:
    """Objective of a steady run in seconds; lower is better."""
    return figures(page)[OBJECTIVE]


def admissible(candidate: Mapping[str, float], start: Mapping[str, float], loss: float = 0.1) -> bool:
    """Whether nothing but what the objective is made of gets worse by more than `loss`."""
    return all(
        candidate[name] <= (1 + loss) * start[name]
        for name in start
        if name not in (OBJECTIVE, "ttft_p90", "itl_p90")
    )


@dataclass(frozen=True, slots=True)
class Landscape:
    """What one seed holds."""

    seed: int
    start: float
    best: float
    config: Values
    priors: tuple[float, ...]
    random: tuple[tuple[float, bool], ...]
    """Objective of random configs, and whether they lose nothing else."""
    cpu_seconds: float

    @property
    def gain(self) -> float:
        """Share of the start's value that the best takes away."""
        return 1.0 - self.best / self.start

    def share(self, value: float) -> float:
        """Share of the best gain that a value has."""
        return (self.start - value) / (self.start - self.best) if self.best < self.start else math.nan


def survey(scenario: Scenario, seed: int, seconds: float, draws: int = 60) -> Landscape:
    """Find the best config by a coarse grid over pairs of knobs, refined knob by knob."""
    began = time.process_time()
    known: dict[tuple[float, ...], dict[str, float]] = {}
    names = tuple(GRID)
    launch = dict(scenario.launch)

    def look(config: Values) -> dict[str, float]:
        key = tuple(config[name] for name in names)
        if key not in known:
            known[key] = figures(simulate(scenario, seed, config, seconds))
        return known[key]

    def value(config: Values) -> float:
        return look(config)[OBJECTIVE]

    start = look(launch)
    best = dict(launch)
    for names_now in (
        ("max_prefill_tokens", "long_prefill_tokens"),
        ("max_num_seqs", "watermark"),
        ("batch_max_tokens", "max_prefill_tokens"),
        ("max_prefill_tokens", "long_prefill_tokens"),
        ("max_num_seqs", "watermark"),
    ):
        options = [
            {**best, **dict(zip(names_now, point, strict=True))}
            for point in product(*(GRID[n] for n in names_now))
        ]
        best = min([best, *(o for o in options if admissible(look(o), start))], key=value)
    rng = stream(seed, "random search")
    random = []
    for _ in range(draws):
        found = look(draw_config(rng))
        random.append((found[OBJECTIVE], admissible(found, start)))
    return Landscape(
        seed=seed,
        start=value(launch),
        best=value(best),
        config=best,
        priors=tuple(value({**launch, **prior}) for prior in PRIORS),
        random=tuple(random),
        cpu_seconds=time.process_time() - began,
    )


def draw_config(rng: np.random.Generator) -> dict[str, float]:
    """One config of a blind search, log-uniform in the knobs' ranges."""

    def between(low: float, high: float) -> int:
        return round(math.exp(rng.uniform(math.log(low), math.log(high))))

    return {
        "batch_max_tokens": between(256, 8192),
        "max_prefill_tokens": between(32, 8192),
        "long_prefill_tokens": 0 if rng.random() < 0.2 else between(64, 2048),
        "max_num_seqs": between(16, 256),
        "watermark": float(rng.uniform(0.0, 0.1)),
    }


def windows(scenario: Scenario, seed: int, seconds: float, width: float = WINDOW_SECONDS) -> list[float]:
    """Objective of adjacent windows under the launch config, with noise, by first token and token gap."""
    node = Node(scenario, seed, 0.0)
    values: list[float] = []
    node.advance(60.0)
    for k in range(int(seconds / width)):
        engine = node.engine
        engine.begin_epoch(engine.epoch + 1)
        epoch = engine.epoch
        engine.first_tokens.clear()
        node.advance(60.0 + (k + 1) * width)
        gaps = {i: n for i, n in enumerate(engine.gaps[epoch]) if n}
        values.append(objective(engine.first_tokens, gaps))
    return values


def paired_sd(values: Sequence[float]) -> float:
    """Standard deviation of the log ratio of adjacent windows."""
    logs = np.log(np.asarray(values))
    pairs = [b - a for a, b in list(pairwise(logs))[::2]]
    return float(np.std(pairs, ddof=1))


def seeds_of(text: str) -> list[int]:
    """`101-104,110` as a list."""
    seeds: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        seeds.extend(range(int(low), int(high or low) + 1))
    return seeds


def main(arguments: Iterable[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="default", choices=sorted(SCENARIOS))
    parser.add_argument("--seeds", default="101-110")
    parser.add_argument("--seconds", type=float, default=600.0, help="simulated seconds per config")
    parser.add_argument("--draws", type=int, default=60, help="random configs per seed, at least 1")
    options = parser.parse_args(None if arguments is None else list(arguments))
    scenario = SCENARIOS[options.scenario]
    print(
        f"{'seed':>5} {'util':>5} {'start':>7} {'best':>7} {'gain':>6} {'rand85':>6} {'bad':>6} {'prior':>6} "
        f"{'sd30':>6} {'x real':>7} {'cpu s':>6}  best config"
    )
    rows: list[Landscape] = []
    for seed in seeds_of(options.seeds):
        row = survey(scenario, seed, options.seconds, options.draws)
        rows.append(row)
        began = time.process_time()
        sd = paired_sd(windows(scenario, seed, 3600.0))
        speed = 3660.0 / (time.process_time() - began)
        hit = float(np.mean([held and row.share(v) >= 0.85 for v, held in row.random]))
        worse = float(np.mean([v > 3 * row.start for v, _ in row.random]))
        drawn = scenario.drawn(seed)
        used = drawn.arrivals.rate / capacity(drawn.physics, drawn.arrivals.mix, scenario.launch)
        print(
            f"{seed:>5} {used:>5.2f} {row.start:>7.4f} {row.best:>7.4f} {row.gain:>6.1%} {hit:>6.1%} {worse:>6.1%} "
            f"{row.share(min(row.priors)):>6.2f} {sd:>6.3f} {speed:>7.0f} {row.cpu_seconds:>6.1f}  "
            + " ".join(f"{k.replace('_tokens', '')}={v:g}" for k, v in row.config.items()),
            flush=True,
        )
    gains = [row.gain for row in rows]
    print(f"gain: median {np.median(gains):.1%}, from {min(gains):.1%} to {max(gains):.1%}")
    print("rand85: random configs with 85% of the best gain; bad: those over 3 times the start's value")
    print(
        "prior: share of the best gain that the best of the guides' priors has; sd30: of A/A pairs of 30 s windows"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
