"""Talking to the plugin of a real server through the daemon's own client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Self, TypeVar

from change.engine import GAP_BASE_SECONDS, GAP_RATIO, KnobAnswer, RequestPage, RequestRecord
from daemon.engine.hot import HotEngine
from tests.real.engine import RealEngine

T = TypeVar("T")


def talk(engine: RealEngine, conversation: Callable[[HotEngine], Awaitable[T]]) -> T:
    """Run a conversation with the plugin, and put the launch values back after it."""

    async def go() -> T:
        async with engine.hot() as hot:
            launch = (await hot.state()).values
            try:
                return await conversation(hot)
            finally:
                state = await hot.state()
                await hot.set_knobs(launch, if_epoch=state.epoch, lease_seconds=None)

    return asyncio.run(go())


async def switch(hot: HotEngine, lease: float | None = None, **values: float) -> KnobAnswer:
    """Change to `values` and check that they are what the engine says it has."""
    answer = await hot.set_knobs(values, if_epoch=(await hot.state()).epoch, lease_seconds=lease)
    assert answer.status in ("applied", "draining"), answer.reason
    assert dict(answer.effective) == dict(answer.requested) == values
    return answer


class Gaps:
    """The token gaps that come while a block runs; epochs leave the engine's memory, so it is read all along."""

    def __init__(self, engine: RealEngine) -> None:
        self._engine = engine
        self._before: Mapping[int, Mapping[int, int]] = {}
        self._since = 0
        self._longest = 0
        self._done = asyncio.Event()

    @property
    def longest(self) -> float:
        """The upper edge of the longest gap's bucket, in seconds."""
        return GAP_BASE_SECONDS * GAP_RATIO ** (self._longest + 1)

    async def __aenter__(self) -> Self:
        async with self._engine.hot() as hot:
            page = (await read_all(hot))[1]
            self._before, self._since = page.gaps, page.next_since
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._done.set()
        await self._task

    async def _watch(self) -> None:
        async with self._engine.hot() as hot:
            done = False
            while not done:
                done = self._done.is_set()
                # Only what is new: a thousand records at a time would keep this process and the server's busy.
                page = (await read_all(hot, self._since))[1]
                self._since = page.next_since
                for epoch, counts in page.gaps.items():
                    before = self._before.get(epoch, {})
                    new = (bucket for bucket, count in counts.items() if count > before.get(bucket, 0))
                    self._longest = max(self._longest, max(new, default=0))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._done.wait(), 3.0)


async def read_all(hot: HotEngine, since: int = 0) -> tuple[list[RequestRecord], RequestPage]:
    """Read every record after `since`, and the last page."""
    records: list[RequestRecord] = []
    while True:
        page = await hot.requests(since)
        records += page.records
        if not page.records:
            return records, page
        since = page.next_since
