"""The weather of a healthy replica: what comes and goes over days without anything being wrong."""

from __future__ import annotations

import math

from sim.faults.node import TroubledNode
from sim.faults.replica import DAY_SECONDS
from sim.scenario import stream

HOUR = 3600.0
WARMEST_HOUR, AIR_SWING_CELSIUS = 15.0, 3.0
MIX_SPREAD, USERS_SPREAD = 0.15, 0.05
CROWDS_A_DAY, CROWD_SHARE, CROWD_SECONDS = 1.5, 0.2, 900.0
"""How often, by how many of the usual users and for how long more come than the hour has."""
PROMPTS, SHARES = (128, 512, 1024), (0.5, 0.3, 0.2)


class Weather:
    """Changes the air, the users and what they ask, from its own stream of the node's seed."""

    def __init__(self, node: TroubledNode) -> None:
        self._node = node
        self._rng = stream(node.seed, "weather")
        self._usual = node.engine.users
        self._hour = -1
        self._crowd_until = -math.inf
        self._air = 0.0

    def live(self, now: float) -> None:
        """Let it be as it is at `now` (Unix seconds)."""
        hour = int(now // HOUR)
        if hour != self._hour:
            self._hour = hour
            self._change(now)
        elif self._crowd_until <= now and math.isfinite(self._crowd_until):
            self._crowd_until = -math.inf
            self._node.set_users(self._usual)

    def _change(self, now: float) -> None:
        air = AIR_SWING_CELSIUS * math.cos(2 * math.pi * (now % DAY_SECONDS / HOUR - WARMEST_HOUR) / 24.0)
        for card in self._node.cards:
            card.ambient += air - self._air
        self._air = air
        shares = [share * math.exp(MIX_SPREAD * float(self._rng.normal())) for share in SHARES]
        total = sum(shares)
        self._node.users_ask([(tokens, share / total) for tokens, share in zip(PROMPTS, shares, strict=True)])
        more = 1.0 + USERS_SPREAD * float(self._rng.normal())
        if self._rng.random() < CROWDS_A_DAY / 24.0:
            more += CROWD_SHARE
            self._crowd_until = now + CROWD_SECONDS
        self._node.set_users(round(self._usual * more))
