"""Looks after the host lane: ends what was left open, puts what was promoted on an engine that started again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from change.engine import EngineError
from change.host import HostError
from change.lock import LockError, LockHeld
from change.steps import ChangeRefused
from collectors.host.tree import Process
from daemon.host.thread_kinds import drives_npu
from daemon.host_lane import HostLane
from daemon.modes import Modes
from daemon.notices import Notices
from store import StoreError

TRIES = 5
"""How often a promotion is set anew on one boot of the engine before it is given up."""
LOOKS = 6


class HostWatch:
    """Ticks beside the loop that watches the engine.

    `busy` tells whether a campaign of ours changes things now, or the engine is being restarted.
    """

    def __init__(self, lane: HostLane, modes: Modes, notices: Notices, busy: Callable[[], bool]) -> None:
        self._lane = lane
        self._modes = modes
        self._notices = notices
        self._busy = busy
        self._unfinished = True
        self._boot: str | None = None
        self._settled: str | None = None
        self._seen: frozenset[tuple[int, int]] = frozenset()
        self._tries = self._looks = 0

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
        """Set the promotion anew on an engine that serves, and look until all of its processes have it."""
        if not self._lane.promoted():
            return
        # A half-started engine forks its workers later, and would be read back without them.
        boot = await self._lane.serving()
        if boot is None or boot == self._settled:
            return
        if self._modes.mode == "observe" or self._modes.stopped(now) is not None:
            return
        if boot != self._boot:
            self._boot, self._tries, self._looks, self._seen = boot, 0, 0, frozenset()
            self._notices.over("host promotion", "the engine started once more")
        processes = await asyncio.to_thread(self._lane.processes)
        if not processes:
            return
        if await self._lane.promoted_holds():
            self._settle(boot, processes)
        elif self._tries < TRIES:
            self._tries += 1
            entry = await self._lane.reapply(now)
            if entry is not None and entry.outcome == "done":
                self._notices.say(
                    f"host {entry.id}", f"the engine started again: {entry.change} is set anew", "info"
                )
        else:
            self._settled = boot
            self._notices.say(
                "host promotion",
                f"what was promoted of the host does not hold on the engine that started again, after {TRIES} tries: "
                "see `trimtab history`; `trimtab host rollback` gives it up",
            )

    def _settle(self, boot: str, processes: Sequence[Process]) -> None:
        """Look no more at this boot once its workers are there and nothing was started since the last look."""
        seen = frozenset((process.pid, process.start_ticks) for process in processes)
        self._looks = self._looks + 1 if seen == self._seen else 0
        self._seen = seen
        # Workers without a title of their own cannot be told: then it is enough that nothing changed for long.
        if self._looks >= (1 if any(drives_npu(process.role) for process in processes) else LOOKS):
            self._settled = boot


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
