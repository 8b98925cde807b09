"""The search on the simulated node, seed by seed: what it gained of what there was to gain; random search beside it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from change.engine import Values
from daemon.demo import headless_report
from sim.scenario import SCENARIOS
from tuner.judge import LOOKS
from tuner.proposer import PRIORS, Evidence, Proposer
from tuner.space import Space

NEARLY = 0.8
"""Share of the best gain that counts as found."""
SLACK = 0.005
"""A promotion counts as truly worse when the noise-free objective is worse by more than this share, which is the error
of a truth over some thousands of requests."""


class RandomProposer(Proposer):
    """Random search over the same space with the same windows and confirmations.

    It has no race: each config is measured as long as the first look of a confirmation, and the best mean is confirmed.
    """

    pairs_each = LOOKS[0]

    def __init__(
        self,
        space: Space,
        incumbent: Values,
        seed: int,
        problems: Callable[[Values], list[str]],
        past: Sequence[Values] = (),
    ) -> None:
        super().__init__(space, incumbent, seed, problems, past)
        self._queue.clear()

    def _sample(self, evidence: Sequence[Evidence]) -> dict[str, float]:
        return self.space.decode(tuple(self._random.uniform(0.0, 1.0, len(self.space.dimensions))))

    def smoothed(self, evidence: Sequence[Evidence]) -> list[tuple[float, float]]:
        """Each config stands for itself."""
        return [(item.gain, item.variance**0.5) for item in evidence]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One seed: gains are ratios - 1 of the noise-free objective, better is positive."""

    seed: int
    decision: str
    gain: float
    best_gain: float
    best_values: Mapping[str, float]
    worse: bool
    best_is_a_prior: bool
    paired_sd: float
    failed: int
    restarts: int
    trials: int
    blocks: int
    cpu_seconds: float
    min_effect: float

    @property
    def share(self) -> float:
        """Share of the best gain; keeping is a success where there was next to nothing to gain."""
        if self.best_gain < self.min_effect:
            return 1.0 if self.gain >= -SLACK else 0.0
        return self.gain / self.best_gain


def outcome(seed: int, scenario: str, minutes: float | None, arm: str) -> Outcome:
    """Run one seed of one arm (`ours` or `random`)."""
    begun = time.process_time()
    make = RandomProposer if arm == "random" else Proposer
    report = headless_report(scenario, seed, minutes, make_proposer=make)
    cpu = time.process_time() - begun
    truth: Mapping[str, Any] = report["truth"] or {
        "incumbent": 1.0,
        "winner": 1.0,
        "best": 1.0,
        "best_values": {},
    }
    sign = 1.0 if report["objective"].get("direction", "max") == "max" else -1.0

    def gain(value: float) -> float:
        ratio = value / truth["incumbent"]
        return float(ratio - 1 if sign > 0 else 1 / ratio - 1)

    best = dict(truth["best_values"])
    priors = [{**report["incumbent"], **values} for _, values in PRIORS]
    return Outcome(
        seed,
        report["decision"],
        gain(truth["winner"]),
        max(gain(truth["best"]), 0.0),
        {name: value for name, value in best.items() if report["incumbent"].get(name) != value},
        report["decision"] == "promoted" and gain(truth["winner"]) < -SLACK,
        best in priors,
        report.get("calibration", {}).get("paired_sd", float("nan")),
        report["failed_requests"],
        report["restarts"],
        report["trials"],
        report["blocks"],
        cpu,
        SCENARIOS[scenario].min_effect,
    )


def outcomes(
    seeds: Sequence[int],
    scenario: str = "default",
    minutes: float | None = None,
    arm: str = "ours",
    processes: int = 2,
) -> list[Outcome]:
    """Run several seeds, each in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=4) as pool:
        return pool.map(partial(outcome, scenario=scenario, minutes=minutes, arm=arm), seeds, chunksize=1)


def table(found: Sequence[Outcome]) -> str:
    """One line a seed."""
    lines = ["seed decision      gain   best  share  sd    trials blocks  cpu  best config"]
    for o in found:
        best = ", ".join(f"{name}={value:g}" for name, value in o.best_values.items()) or "the start"
        lines.append(
            f"{o.seed:4d} {o.decision:12s} {o.gain:+6.1%} {o.best_gain:+6.1%} {o.share:5.2f}  {o.paired_sd:.3f}"
            f" {o.trials:6d} {o.blocks:6d} {o.cpu_seconds:5.0f}  {best}"
        )
    return "\n".join(lines)


def summary(found: Sequence[Outcome]) -> str:
    """The figures of a run."""
    good = sum(o.share >= NEARLY for o in found)
    promoted = sum(o.decision == "promoted" for o in found)
    worse = sum(o.worse for o in found)
    noise = [o.paired_sd for o in found]
    share = median(o.share for o in found)
    return (
        f"{good} of {len(found)} seeds reach {NEARLY:.0%} of the best gain; {promoted} promotions, {worse} truly worse;"
        f" failed requests {sum(o.failed for o in found)}, restarts {sum(o.restarts for o in found)};"
        f" paired sd {np.nanmin(noise):.3f} to {np.nanmax(noise):.3f};"
        f" the best differs from every prior in {sum(not o.best_is_a_prior for o in found)} seeds;"
        f" median share of the best gain {share:.2f}, median regret {1 - share:.0%} of it;"
        f" CPU {max(o.cpu_seconds for o in found):.0f} s a seed at most"
    )
