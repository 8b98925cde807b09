"""The cards: utilisation, power, temperature and memory, following the engine's load with a thermal lag."""

from __future__ import annotations

import math
from dataclasses import dataclass

AMBIENT_CELSIUS = 34.0
IDLE_WATTS = 92.0
FULL_WATTS = 330.0
CELSIUS_PER_WATT = 0.115
LAG_SECONDS = 45.0
BUSY_SHARE = 0.25
"""Part of a card's use that a busy engine is, whatever it computes."""
HBM_TOTAL_MIB = 32768
IDLE_HBM_MIB = 3300
RATED_MEGAHERTZ = 1800
IDLE_MEGAHERTZ = 800
LINK_BYTES_PER_SECOND = 6e9
"""What a wholly busy card sends to the others."""


@dataclass(slots=True)
class Card:
    """One card, updated once a second."""

    spread: float
    """How far this card runs above the mean of the node (1 is the mean)."""
    aicore: float = 0.0
    bandwidth: float = 0.0
    """Share of the HBM's bandwidth in use."""
    link_bytes: float = 0.0
    watts: float = IDLE_WATTS
    celsius: float = AMBIENT_CELSIUS + CELSIUS_PER_WATT * IDLE_WATTS
    ambient: float = AMBIENT_CELSIUS
    heating: float = CELSIUS_PER_WATT
    """Degrees above the air per watt: grows when a fan fails."""
    clock: float = 1.0
    """Share of the rated clock that the card may use."""

    def tick(self, seconds: float, busy: float, computing: float) -> None:
        """Live `seconds` with the engine busy and computing for these shares of it."""
        share = min(1.0, BUSY_SHARE * busy + (1.0 - BUSY_SHARE) * computing)
        self.aicore = min(1.0, share * self.spread)
        # What is busy and does not compute waits for memory.
        reading = 0.25 * computing + 0.8 * max(0.0, busy - computing)
        self.bandwidth = min(1.0, reading * self.spread)
        self.link_bytes += LINK_BYTES_PER_SECOND * busy * seconds
        self.watts = IDLE_WATTS + (FULL_WATTS - IDLE_WATTS) * self.aicore
        self.warm(seconds)

    def warm(self, seconds: float) -> None:
        """Let the temperature follow the power for `seconds`."""
        target = self.ambient + self.heating * self.watts * self.spread
        self.celsius += (target - self.celsius) * (1.0 - math.exp(-seconds / LAG_SECONDS))

    @property
    def megahertz(self) -> int:
        """Clock of the AI cores: an idle card goes down by itself."""
        return round(self.clock * RATED_MEGAHERTZ) if self.aicore > 0.02 else IDLE_MEGAHERTZ
