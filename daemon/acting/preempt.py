"""A playbook goes before a trial: the campaign has two seconds to put the incumbent back, then it is done for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

from change.engine import EngineControl, EngineError
from change.journal import Journal
from change.steps import put_back
from store import StoreError
from tuner.messages import Decision

PATIENCE_SECONDS = 2.0
"""For the campaign to put the incumbent back, and once more for the playbook to do it itself."""

GiveWay = Callable[[str, float], Awaitable[None]]
"""Asks the adaptive mode to let go of the engine, with the reason and the time."""


class Campaigning(Protocol):
    """The campaign that may run, as `daemon.campaigns.Campaigns` is."""

    @property
    def running(self) -> bool:
        """Whether one runs."""
        ...

    async def stop(
        self, reason: str, now: float, *, may_restart: bool = True, decision: Decision = "aborted"
    ) -> None:
        """End it with the incumbent restored."""
        ...

    def abandon(self, reason: str) -> None:
        """Let go of it as it is."""
        ...


class Preempt:
    """Clears the way for one action."""

    def __init__(
        self,
        campaigns: Campaigning,
        control: EngineControl,
        journal: Journal,
        patience_seconds: float = PATIENCE_SECONDS,
        *,
        give_way: GiveWay | None = None,
    ) -> None:
        """`give_way` asks the adaptive mode to let go of the engine; if it cannot, its lease does that."""
        self._give_way = give_way
        self._campaigns = campaigns
        self._control = control
        self._journal = journal
        self._patience = patience_seconds
        self._stopping: set[asyncio.Task[None]] = set()

    async def clear(self, reason: str, now: float) -> str | None:
        """End the campaign that runs; returns in words what came of it, None where none ran.

        A start-up candidate that serves is taken back by the cold lane's own recovery, as its way back is a restart.
        """
        if self._give_way is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._give_way(reason, now)
        if not self._campaigns.running:
            return None
        stopping = asyncio.create_task(
            self._campaigns.stop(reason, now, may_restart=False, decision="superseded")
        )
        self._stopping.add(stopping)
        stopping.add_done_callback(self._over)
        await asyncio.wait({stopping}, timeout=self._patience)
        if stopping.done() and stopping.exception() is None:
            return "the campaign ended with the incumbent restored"
        return await self._force(reason, stopping)

    async def _force(self, reason: str, stopping: asyncio.Task[None]) -> str:
        how = "the way back is its lease"
        try:
            async with asyncio.timeout(self._patience):
                how = await self._put_back()
        except (EngineError, StoreError) as error:
            how = f"the incumbent could not be put back ({error}): its lease does that"
        except TimeoutError:
            how = "the engine did not answer: a trial's lease brings the incumbent back"
        # It may have come to its end meanwhile.
        if self._campaigns.running:
            self._campaigns.abandon(f"{reason}; it did not end within {self._patience:g} s")
        # Late, it would put back what the playbook sets next, or end a campaign that begins after it.
        stopping.cancel()
        return f"the campaign did not end within {self._patience:g} s and was given up: {how}"

    async def _put_back(self) -> str:
        boot_id = (await self._control.state()).boot_id
        trials = [entry for entry in self._journal.open_entries() if entry.boot_id == boot_id]
        if not trials:
            return "no trial was under way"
        # The oldest holds what served before any of them.
        undo: dict[str, Any] = {}
        for entry in reversed(trials):
            undo.update(entry.undo)
        return await put_back(self._control, boot_id, undo)

    def _over(self, stopping: asyncio.Task[None]) -> None:
        self._stopping.discard(stopping)
        if not stopping.cancelled():
            stopping.exception()  # it was told already: by the notices, or by what `clear` returned
