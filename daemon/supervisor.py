"""Keep the daemon's loops alive: a failure is said once and tried again with growing pauses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from daemon.notices import Notices

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


class Supervisor:
    """Runs loops until `stop` is set; no failure of one ends another or the process."""

    def __init__(self, notices: Notices, stop: asyncio.Event, clock: Callable[[], float]) -> None:
        self._notices = notices
        self._stop = stop
        self._clock = clock
        self._log = structlog.get_logger("trimtab")

    async def every(self, name: str, seconds: float, tick: Callable[[float], Awaitable[object]]) -> None:
        """Call `tick(now)` every `seconds`; while it fails, pauses grow up to a minute."""
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.is_set():
            try:
                await tick(self._clock())
            except Exception as error:
                self._failed(name, error)
                wait = max(seconds, pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                self._notices.over(f"loop {name}", f"the {name} loop works again")
                wait, pause = seconds, FIRST_PAUSE_SECONDS
            await self._rest(wait)

    async def keep(self, name: str, run: Callable[[], Awaitable[object]]) -> None:
        """Run something that should last until the stop; if it ends or fails, start it again."""
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.is_set():
            begun = self._clock()
            task = asyncio.ensure_future(run())
            # Once it has lasted longer than the pause before it, it counts as healthy.
            done, _ = await asyncio.wait({task}, timeout=pause)
            if not done:
                self._notices.over(f"loop {name}", f"the {name} loop works again")
            try:
                await task
            except Exception as error:
                self._failed(name, error)
            else:
                if self._stop.is_set():
                    return
                self._notices.say(
                    f"loop {name}", f"the {name} loop ended by itself; it is started again", "error"
                )
            lasted = self._clock() - begun
            pause = (
                FIRST_PAUSE_SECONDS
                if lasted > LONGEST_PAUSE_SECONDS
                else min(pause * 2, LONGEST_PAUSE_SECONDS)
            )
            await self._rest(pause)

    def _failed(self, name: str, error: Exception) -> None:
        key = f"loop {name}"
        if not self._notices.holds(key):
            # The trace belongs in the log, once: it is a fault of the program and not of its user.
            self._log.error(f"the {name} loop failed", exc_info=error)
        self._notices.say(key, f"the {name} loop failed ({_words(error)}); it is tried again", "error")

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
