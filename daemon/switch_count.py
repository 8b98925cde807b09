"""Counts the hot changes made through an engine's control, for `trimtab_switches_total`."""

from __future__ import annotations

from typing import Literal

from change.engine import EngineControl, EngineState, KnobAnswer, RequestPage, Values


class CountedControl:
    """An `EngineControl` that passes everything on and counts the changes; a renewed lease is none."""

    def __init__(self, control: EngineControl) -> None:
        self.switches = 0
        self._control = control

    async def state(self) -> EngineState:
        """Read the plugin's state."""
        return await self._control.state()

    async def set_knobs(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
        mark: str | None = None,
    ) -> KnobAnswer:
        """Apply values."""
        answer = await self._control.set_knobs(
            values, if_epoch=if_epoch, lease_seconds=lease_seconds, revert_to=revert_to, mark=mark
        )
        if answer.status != "refused" and answer.epoch != if_epoch:
            self.switches += 1
        return answer

    async def requests(self, since: int) -> RequestPage:
        """Read finished requests."""
        return await self._control.requests(since)

    async def gate(
        self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float
    ) -> None:
        """Open or close the engine to new requests."""
        await self._control.gate(state, lease_seconds=lease_seconds, retry_after=retry_after)
