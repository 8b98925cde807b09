"""The faults there are, and how bad each is and when it begins, drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from sim.scenario import stream

FaultName = Literal[
    "thermal",
    "slow_card",
    "leak",
    "fragmentation",
    "oom_at_load",
    "stall",
    "dead_engine",
    "irq_storm",
    "governor",
    "numa",
    "queue_surge",
]
FAULTS: tuple[FaultName, ...] = get_args(FaultName)

CARDS = 4


@dataclass(frozen=True, slots=True)
class Range:
    """From where to where a magnitude is drawn: evenly, or evenly in its logarithm."""

    low: float
    high: float
    logarithmic: bool = False

    def drawn(self, rng: np.random.Generator) -> float:
        """One value of it."""
        if self.logarithmic:
            return math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return float(rng.uniform(self.low, self.high))


RANGES: Mapping[FaultName, Mapping[str, Range]] = MappingProxyType(
    {
        # Where the card's temperature would settle under its usual load, if its clock stayed up.
        "thermal": {"celsius": Range(88.0, 97.0)},
        # The time the card takes for its part of a step, over what it took before.
        "slow_card": {"factor": Range(1.15, 2.0, True)},
        "leak": {"hbm_mib_per_hour": Range(40, 250, True), "rss_mib_per_hour": Range(220, 2000, True)},
        # By which share of itself the reserved memory grows in an hour.
        "fragmentation": {"growth_per_hour": Range(0.03, 0.20, True)},
        # What a full step needs over the memory that is free for it.
        "oom_at_load": {"need": Range(1.02, 1.25)},
        "stall": {},
        "dead_engine": {},
        # Interrupts in a second, beside a few hundred.
        "irq_storm": {"per_second": Range(7000, 60000, True)},
        "governor": {"cpus_share": Range(0.3, 1.0), "slower": Range(0.3, 1.5)},
        "numa": {"threads_share": Range(0.6, 1.0), "seconds": Range(0.003, 0.015, True)},
        # Users there are from then on, where there were 130.
        "queue_surge": {"users": Range(262, 312)},
    }
)
VARIANTS: Mapping[FaultName, tuple[str, ...]] = MappingProxyType(
    {
        "thermal": ("one_fan", "two_fans", "all_fans"),
        "slow_card": ("clock", "hidden"),
        "leak": ("hbm_one", "hbm_all", "rss"),
        "oom_at_load": ("start", "long_prompts"),
        "governor": ("powersave", "ondemand", "conservative"),
    }
)
ONSET_SECONDS = Range(900.0, 1800.0)
"""After the node's start: long enough for the sources to have seen it healthy."""
SLOW_ONSET_SECONDS = Range(2 * 3600.0, 4 * 3600.0)
"""Of what is told from a long baseline."""
SLOW: frozenset[FaultName] = frozenset({"leak", "fragmentation"})


@dataclass(frozen=True, slots=True)
class Fault:
    """One draw: `magnitude` as RANGES names it, `variant` how it shows, `card` the card that has it."""

    name: FaultName
    seed: int
    onset_seconds: float
    magnitude: Mapping[str, float]
    variant: str
    card: int

    @property
    def slow(self) -> bool:
        """Whether it takes hours to show."""
        return self.name in SLOW


def draw(name: FaultName, seed: int) -> Fault:
    """How bad, in which way, where and when, of a stream of its own for each fault and seed."""
    rng = stream(seed, f"fault {name}")
    onset = (SLOW_ONSET_SECONDS if name in SLOW else ONSET_SECONDS).drawn(rng)
    variants = VARIANTS.get(name, ("",))
    variant = variants[int(rng.integers(len(variants)))]
    magnitude = {key: spread.drawn(rng) for key, spread in RANGES[name].items()}
    return Fault(name, seed, onset, MappingProxyType(magnitude), variant, int(rng.integers(CARDS)))
