"""The cards: utilisation, power, temperature and memory, following the engine's load with a thermal lag."""

from __future__ import annotations

import math
from dataclasses import dataclass

AMBIENT_CELSIUS = 34.0
IDLE_WATTS = 92.0
FULL_WATTS = 330.0
CELSIUS_PER_WATT = 0.115
LAG_SECONDS = 45.0
HBM_TOTAL_MIB = 32768
IDLE_HBM_MIB = 3300


@dataclass(slots=True)
class Card:
    """One card, updated once a second."""

    spread: float
    """How far this card runs above the mean of the node (1 is the mean)."""
    aicore: float = 0.0
    watts: float = IDLE_WATTS
    celsius: float = AMBIENT_CELSIUS + CELSIUS_PER_WATT * IDLE_WATTS

    def tick(self, seconds: float, busy: float, computing: float) -> None:
        """Live `seconds` with the engine busy and computing for these shares of it."""
        share = min(1.0, 0.25 * busy + 0.75 * computing)
        self.aicore = min(1.0, share * self.spread)
        self.watts = IDLE_WATTS + (FULL_WATTS - IDLE_WATTS) * self.aicore
        target = AMBIENT_CELSIUS + CELSIUS_PER_WATT * self.watts * self.spread
        self.celsius += (target - self.celsius) * (1.0 - math.exp(-seconds / LAG_SECONDS))
