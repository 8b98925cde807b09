"""What drives a node in real time: a clock, a speed, and one task that lets the node live up to now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from sim.node import Node

WAKE_SECONDS = 0.01
SLICE_SECONDS = 1.0
"""Most that the node lives (its seconds) between two looks at what that cost."""
BUDGET_SECONDS = 0.05
"""Longest stretch for which living holds up the event loop."""


class Pace:
    """Keeps a node's clock at `speed` times that of `clock`.

    On a machine too busy for that speed the node's clock goes slower, and nothing of its life is skipped.
    """

    def __init__(
        self, node: Node, *, speed: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin now; `clock` gives seconds that never go back."""
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed:g}")
        self.node = node
        self.speed = speed
        self.lost_seconds = 0.0
        """Seconds of the node's clock that the machine was too busy for."""
        self._clock = clock
        self._anchor = (clock(), node.now)
        self._moved = asyncio.Event()

    def catch_up(self) -> float:
        """Let the node live up to now; its clock (Unix seconds) afterwards."""
        node = self.node
        real, virtual = self._anchor
        target = virtual + (self._clock() - real) * self.speed
        if target <= node.now:
            return node.now
        began = time.perf_counter()
        while node.now < target:
            node.advance(min(target, node.now + SLICE_SECONDS))
            if time.perf_counter() - began > BUDGET_SECONDS:
                self.lost_seconds += target - node.now
                self._anchor = (self._clock(), node.now)
                break
        node.page.absorb()
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        return node.now

    async def moved(self) -> None:
        """Wait until the node has lived on."""
        await self._moved.wait()

    async def run(self) -> None:
        """Let the node live until cancelled."""
        while True:
            self.catch_up()
            await asyncio.sleep(WAKE_SECONDS)
