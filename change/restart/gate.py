"""The gate's keeper: closed, with its lease renewed for as long as a restart goes on."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from change.engine import EngineControl, EngineError
from change.restart.settings import RestartSettings

_RENEWALS_PER_LEASE = 3.0


class Keeper:
    """Holds one engine's gate closed over its stop and its start; let go of it and the lease reopens the gate.

    An engine that is down is asked again and again: it comes up with a gate that starts closed, and the keeper takes
    it over there.
    """

    def __init__(self, control: EngineControl, settings: RestartSettings) -> None:
        self._control = control
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._end = asyncio.Event()

    async def close(self) -> None:
        """Close the gate and begin to renew its lease; raises `EngineError` if it cannot be closed."""
        await self._renew()
        self.begin()

    def begin(self) -> None:
        """Begin to renew without asking first: the engine is down."""
        if self._task is None:
            self._end.clear()
            self._task = asyncio.create_task(self._keep(), name="gate keeper")

    async def let_go(self) -> None:
        """Renew no more; a renewal that is under way is awaited, so that none comes after an opening."""
        task, self._task = self._task, None
        if task is not None:
            self._end.set()
            await asyncio.wait({task})

    async def open(self) -> None:
        """Renew no more and open the gate; raises `EngineError`."""
        await self.let_go()
        await self._control.gate("open", lease_seconds=1.0, retry_after=1.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def _keep(self) -> None:
        while not self._end.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.lease_seconds / _RENEWALS_PER_LEASE):
                    await self._end.wait()
                return
            with contextlib.suppress(EngineError):
                await self._renew()

    async def _renew(self) -> None:
        await self._control.gate(
            "closed",
            lease_seconds=self._settings.lease_seconds,
            retry_after=self._settings.retry_after_seconds,
        )
