"""One of two engines of a canary's campaign, as its driver reaches it: observed, restarted, given hot values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from change.engine import EngineControl
from change.journal import Journal
from change.restart.order import ColdLane, RestartResult
from daemon.gauges import Gauges
from daemon.held_values import HeldValues
from daemon.serving import Serving
from tuner.outer.messages import Held, Hold, Restart, Restarted

STATE_TRIES = 30
"""Looks, one a second, at an engine that just came up before it counts as out of reach."""


class Replica:
    """An engine with its own lane, journal and lock.

    `moving` gives its lock back before a restart, which takes it itself; `moved` takes that of the new boot, and says
    why it could not be had.
    """

    def __init__(
        self,
        control: EngineControl,
        lane: ColdLane | None,
        journal: Journal,
        gauges: Callable[[float], Gauges],
        *,
        moving: Callable[[], None] = lambda: None,
        moved: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self.control = control
        self.lane = lane
        self.serving = Serving(control, gauges)
        self._moving = moving
        self._moved = moved
        self._values = HeldValues(control, journal)
        self._restarting: asyncio.Task[RestartResult] | None = None
        self._tries = 0

    @property
    def restarting(self) -> bool:
        """Whether a restart of it is under way."""
        return self._restarting is not None

    async def hold(self, now: float, order: Hold, campaign: int | None) -> Held:
        """Put hot values in force."""
        return await self._values.hold(now, order, campaign)

    async def restart(
        self, now: float, order: Restart, campaign: int | None
    ) -> tuple[Restarted, str | None] | None:
        """Begin a restart, or look whether it is over: then what came of it, and why its lock could not be had."""
        if self.lane is None:
            return Restarted(RestartResult("refused", "preflight", "nothing here may restart it"), None), None
        if self._restarting is None:
            self._moving()
            self._tries = 0
            self._restarting = asyncio.create_task(
                self.lane.restart(
                    order.settings, actor=f"campaign {campaign}", kind=order.kind, campaign_id=campaign
                )
            )
        if not self._restarting.done():
            await asyncio.sleep(0)
            return None
        result = self._restarting.result()
        state = None if result.outcome == "down" else await self.serving.state()
        if state is None and result.outcome != "down" and self._tries < STATE_TRIES:
            self._tries += 1
            return None
        self._restarting = None
        trouble = None
        if state is not None:
            self._values.note_launch(state, now)
            trouble = self._moved(state.boot_id)
        return Restarted(result, state), trouble

    async def settle(self) -> None:
        """Wait for the restart that is under way."""
        if self._restarting is not None:
            await asyncio.wait({self._restarting})
