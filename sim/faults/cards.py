"""Faults of cards: one that grows hot, one that grows slow."""

from __future__ import annotations

from sim.faults.ailment import Ailment

LIMIT_CELSIUS = 85.0
THROTTLE_CELSIUS = 90.0
"""From here on the chip takes its clock down to cool."""
RECOVER_CELSIUS = 87.0
STEP_SHARE, LEAST_CLOCK = 1.0 / 36.0, 0.5
"""50 of 1800 MHz at a time, and no further than half."""
STEP_SECONDS = 15.0
USUAL_WATTS = 215.0
"""What a card of the replica draws under its usual load."""


class Thermal(Ailment):
    """Fans fail: the cards they blow at take more degrees for each watt, and lower their clock."""

    def begin(self) -> None:
        count = {"one_fan": 1, "two_fans": 2, "all_fans": len(self.node.cards)}[self.fault.variant]
        first = self.fault.card
        self._hot = [self.node.cards[(first + place) % len(self.node.cards)] for place in range(count)]
        for card in self._hot:
            card.heating = (self.fault.magnitude["celsius"] - card.ambient) / (USUAL_WATTS * card.spread)
        self._since = 0.0

    def live(self, seconds: float) -> None:
        self._since += seconds
        if self._since < STEP_SECONDS:
            return
        self._since = 0.0
        for card in self._hot:
            if card.celsius > THROTTLE_CELSIUS:
                card.clock = max(LEAST_CLOCK, card.clock - STEP_SHARE)
            elif card.celsius < RECOVER_CELSIUS:
                card.clock = min(1.0, card.clock + STEP_SHARE)
        self.node.recost()

    def mended(self) -> bool:
        return all(card.celsius < LIMIT_CELSIUS for card in self._hot)


class SlowCard(Ailment):
    """A card takes longer for its part of each step, and the others wait for it.

    What makes it slow ends with the processes that hold it. Where its clock shows it, it is as cool as they.
    """

    def begin(self) -> None:
        factor = self.fault.magnitude["factor"]
        if self.fault.variant == "clock":
            self.node.cards[self.fault.card].clock = 1.0 / factor
        else:
            self.node.slowness[self.fault.card] = factor
        self.node.recost()

    def restarted(self) -> None:
        self.node.cards[self.fault.card].clock = 1.0
        self.node.slowness[self.fault.card] = 1.0
        self.node.recost()

    def mended(self) -> bool:
        slow = self.node.slowness[self.fault.card] / self.node.cards[self.fault.card].clock
        return slow < 1.01 or self.node.away
