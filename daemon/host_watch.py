"""Looks after the host lane: ends what was left open, puts what was promoted on an engine that started again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from change.engine import EngineError
from change.host import HostError
from change.lock import LockError, LockHeld
from change.steps import ChangeRefused
from daemon.host_lane import HostLane
from daemon.modes import Modes
from daemon.notices import Notices
from store import StoreError


class HostWatch:
    """Ticks beside the loop that watches the engine; `busy` tells whether a campaign of ours is changing things now."""

    def __init__(self, lane: HostLane, modes: Modes, notices: Notices, busy: Callable[[], bool]) -> None:
        self._lane = lane
        self._modes = modes
        self._notices = notices
        self._busy = busy
        self._unfinished = True
        self._process: tuple[int, int] | None = None

    def look_again(self) -> None:
        """Have open changes ended at the next tick: something that was changing the host broke off."""
        self._unfinished = True

    async def tick(self, now: float) -> None:
        """Look once; each thing is done once, but tried until it worked."""
        if self._busy():
            return
        try:
            if self._unfinished:
                for entry in await self._lane.recover(now):
                    self._notices.say(
                        f"recovered {entry.id}",
                        f"host change {entry.id} was left open: {entry.reason}",
                        "info",
                    )
                await self._take_back_unproven(now)
                self._unfinished = False
            await self._put_back_promoted(now)
        except LockHeld as error:
            # Somebody else is at work: it is left alone, and looked at again with the next tick.
            self._notices.say("host lane", str(error), "info")
        except StoreError as error:
            self._notices.say("store", str(error), "error")
        except (HostError, LockError, ChangeRefused) as error:
            self._notices.say("host lane", f"the host is left as it is: {error}")
        else:
            self._notices.over("host lane", "the host lane is in order")

    async def _take_back_unproven(self, now: float) -> None:
        """In any mode: what nobody saw through its probation does not go on."""
        for entry in await self._lane.take_back_unproven(now):
            self._notices.say(
                f"host {entry.id}", "a promotion of the host whose probation broke off was taken back", "info"
            )

    async def _put_back_promoted(self, now: float) -> None:
        if not self._lane.promoted():
            return
        process = await asyncio.to_thread(self._lane.process)
        if process is None or process == self._process:
            return
        if self._modes.mode == "observe" or self._modes.stopped(now) is not None:
            return
        entry = await self._lane.reapply(now)
        self._process = process
        if entry is not None:
            self._notices.say(
                f"host {entry.id}", f"the engine started again: {entry.change} is set anew", "info"
            )


def after_restart(lane: HostLane, notices: Notices) -> Callable[[float], Awaitable[None]]:
    """What a campaign calls after each of its restarts: what was promoted is set on the new threads."""

    async def reapply(now: float) -> None:
        try:
            await lane.reapply(now)
        except (HostError, EngineError, LockError, ChangeRefused, StoreError) as error:
            notices.say(
                "host lane", f"what was promoted is not set on the engine that started again: {error}"
            )

    return reapply
