"""The heartbeat of the face: once a second it looks at the daemon and the store and wakes the open event streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import structlog
from fastapi.sse import ServerSentEvent

from store import Store, StoreError
from web import reads
from web.body import Body
from web.plain import plain
from web.trend import Trend

BEAT_SECONDS = 1.0
TREND_EVERY_BEATS = 2

log = structlog.get_logger(__name__)


class Feed:
    """One look a second however many pages are open."""

    def __init__(self, body: Body, store: Store, clock: Callable[[], float]) -> None:
        self.trend = Trend()
        self._closed = False
        self._body = body
        self._store = store
        self._clock = clock
        self._live: dict[str, Any] = {}
        self._revision: reads.Revision | None = None
        self._version = 0
        self._campaign: int | None = None
        self._beat = asyncio.Event()
        self._store_failed = False
        self._body_failed = False

    def look(self) -> dict[str, Any]:
        """Ask the daemon what is true now."""
        live: dict[str, Any] = plain(self._body.live(self._clock()))
        live.setdefault("now", self._clock())
        return live

    async def run(self) -> None:
        """Beat until cancelled."""
        beats = 0
        while True:
            self._live = self.look_or_say()
            if beats % TREND_EVERY_BEATS == 0:
                self.trend.add(self._live["now"], self._live)
            self._check_store()
            self._wake()
            beats += 1
            await asyncio.sleep(BEAT_SECONDS)

    def close(self) -> None:
        """End every open stream, so that a server that waits for its connections can stop."""
        self._closed = True
        self._beat.set()

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """Yield `live` each beat and `trials` when something new is stored, until closed."""
        seen = self._version
        yield ServerSentEvent(event="live", data=self.look_or_say(), retry=2000)
        while await self._next_beat():
            yield ServerSentEvent(event="live", data=self._live)
            if self._version != seen:
                seen = self._version
                yield ServerSentEvent(event="trials", data={"campaign": self._campaign, "revision": seen})

    async def _next_beat(self) -> bool:
        await self._beat.wait()
        return not self._closed

    def look_or_say(self) -> dict[str, Any]:
        """Ask the daemon what is true now; if it fails, know nothing and log it once."""
        try:
            live = self.look()
        except Exception:
            # Whatever the daemon stumbled over, the pages must say "unknown" rather than stand still.
            if not self._body_failed:
                log.exception("live_unknown", mend="the live page shows unknown until the daemon answers")
            self._body_failed = True
            return {"now": self._clock()}
        if self._body_failed:
            log.info("live_known_again")
        self._body_failed = False
        return live

    def _wake(self) -> None:
        if self._closed:
            return
        self._beat.set()
        self._beat = asyncio.Event()

    def _check_store(self) -> None:
        try:
            with self._store.reading() as session:
                revision = reads.revision(session)
                self._campaign = reads.newest_campaign(session)
        except StoreError as error:
            if not self._store_failed:
                log.error("store_unreadable", error=str(error), effect="the trials page stands still")
            self._store_failed = True
            return
        if self._store_failed:
            log.info("store_readable_again")
        self._store_failed = False
        if revision != self._revision:
            self._version += self._revision is not None
            self._revision = revision
