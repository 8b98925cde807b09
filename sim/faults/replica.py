"""The replica that falls ill: an engine of moderate load whose users wait for their answers and think before the next.

130 users make about 4.5 requests a second, of which some 20 run at a time under a cap of 24. So a lower cap takes load
off the cards and makes users wait, a higher one serves a crowd.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.physics import Physics
from sim.scenario import CEILINGS, LAUNCH, Draw, Scenario
from sim.traffic import Arrivals, Mix, Traffic

USERS = 130
THINK_SECONDS = 24.0
FEW_USERS = 40
"""Of a replica whose days are lived through: the same story at a smaller cost."""
DAY_SECONDS = 86400.0
BUSIEST_HOUR = 14.0
NIGHT_SHARE = 0.5
"""Of the busiest hour's demand, in the quietest."""
MIX = Mix(cached_share=0.3)
BUSY_USERS, BUSY_THINK_SECONDS, BUSY_KV_BLOCKS = 157, 30.0, 640
"""Some 60 requests run at a time in the busiest hour, and hold about 60% of the KV cache, at times 80%."""
LAUNCHED = {**LAUNCH, "max_num_seqs": 24.0}


def _engine(rng: np.random.Generator, kv_blocks: int) -> Physics:
    return Physics(
        overhead_seconds=rng.uniform(0.006, 0.008),
        weight_read_seconds=rng.uniform(0.030, 0.034),
        token_seconds=rng.uniform(45e-6, 55e-6),
        roofline_sharpness=3.0,
        kv_read_seconds=rng.uniform(0.10e-6, 0.20e-6),
        attention_seconds=4e-9,
        thrash_knee_tokens=8192.0,
        thrash_seconds=0.0,
        thrash_sharpness=8.0,
        spill_seconds=0.0,
        eager_seconds=0.0,
        sequence_seconds=rng.uniform(0.20e-3, 0.28e-3),
        batch_knee=96.0,
        crowd_seconds=0.1e-3,
        kv_blocks=kv_blocks,
        jitter=0.04,
        drift=0.04,
        weather=0.05,
    )


def _draw(rng: np.random.Generator) -> Draw:
    arrivals = Arrivals(rate=1.0, mix=MIX, clients=USERS, think_seconds=THINK_SECONDS)
    return Draw(_engine(rng, int(rng.uniform(900, 1000))), arrivals)


def _draw_busy(rng: np.random.Generator) -> Draw:
    mix = replace(MIX, output_low=64, output_high=1024)
    arrivals = Arrivals(rate=1.0, mix=mix, clients=BUSY_USERS, think_seconds=BUSY_THINK_SECONDS)
    return Draw(_engine(rng, BUSY_KV_BLOCKS), arrivals)


REPLICA = Scenario(
    "replica", "a replica of moderate load that may fall ill", _draw, launch=LAUNCHED, ceilings=CEILINGS
)
BUSY_REPLICA = Scenario(
    "busy-replica", "a healthy replica whose KV cache is well used every day", _draw_busy, ceilings=CEILINGS
)


class Users(Traffic):
    """Users who think for a time that differs each time, and longer at night where `days` says so."""

    def __init__(self, arrivals: Arrivals, rng: np.random.Generator, start: float, *, days: bool) -> None:
        super().__init__(arrivals, rng, start)
        self._days = days
        self._thoughts = rng.spawn(1)[0]
        self._kept: list[float] = []

    def ask(self, prompts: Sequence[tuple[int, float]]) -> None:
        """From the next chunk on send prompts of these lengths and shares."""
        self._arrivals = replace(self._arrivals, mix=replace(self._arrivals.mix, prompts=tuple(prompts)))

    def pause_seconds(self, time: float) -> float:
        """See `Traffic`."""
        if not self._kept:
            self._kept = self._thoughts.exponential(self.think_seconds, 1024).tolist()
        return self._kept.pop() / (level(time) if self._days else 1.0)


def level(time: float) -> float:
    """Demand at a time (Unix seconds, the day begins with it), as a share of the busiest hour's."""
    hour = time % DAY_SECONDS / 3600.0
    swing = 0.5 + 0.5 * math.cos(2 * math.pi * (hour - BUSIEST_HOUR) / 24.0)
    return NIGHT_SHARE + (1.0 - NIGHT_SHARE) * swing
