"""Making a campaign's winner the engine's own and taking it back: the host's part and the engine's together."""

from __future__ import annotations

from change.apply import change
from change.engine import EngineControl, EngineError, Values
from change.journal import Journal
from change.steps import ChangeRefused
from daemon.lanes import LaneControl
from daemon.way_back import take_back
from store import StoreError


class Promoter:
    """Keeps one campaign's winner; `incumbent` is what served before it."""

    def __init__(
        self,
        control: EngineControl,
        journal: Journal,
        lanes: LaneControl | None,
        incumbent: Values,
        campaign_id: int | None,
    ) -> None:
        self._control = control
        self._journal = journal
        self._lanes = lanes
        self._incumbent = dict(incumbent)
        self._campaign_id = campaign_id
        self._actor = f"campaign {campaign_id}"

    async def keep(self, values: Values, now: float) -> str | None:
        """Put `values` in force for good, each lane journaled; returns why they do not hold, or None.

        If they do not, the host's part goes back with the engine's.
        """
        own, trouble = dict(values), None
        try:
            if self._lanes is not None:
                own, trouble = await self._lanes.keep(
                    values, actor=self._actor, now=now, campaign_id=self._campaign_id
                )
            if trouble is None:
                entry = await change(
                    self._control,
                    self._journal,
                    own,
                    kind="promotion",
                    actor=self._actor,
                    now=now,
                    undo={name: self._incumbent[name] for name in own},
                    campaign_id=self._campaign_id,
                )
                trouble = None if entry.outcome == "done" else str(entry.reason)
            reason = None if trouble is None else f"the promotion was taken back: {trouble}"
        except (EngineError, StoreError, ChangeRefused) as error:
            reason = f"the promotion failed: {error}"
        if reason is None:
            return None
        left = await self._drop(now)
        return reason if left is None else f"{reason}; {left}"

    async def take_back(self, now: float) -> str | None:
        """Put the incumbent's values back; returns why it has to be tried again, or None."""
        host = await self._drop(now)
        values = self._incumbent
        if host is not None and self._lanes is not None:
            # The engine's part goes back alone: the host's own way back is tried again, and no other is begun.
            values = {name: value for name, value in values.items() if name not in self._lanes.options}
        trouble = await take_back(self._control, self._journal, values, self._campaign_id, self._actor, now)
        return trouble or host

    async def _drop(self, now: float) -> str | None:
        if self._lanes is None:
            return None
        try:
            await self._lanes.drop(self._incumbent, actor=self._actor, now=now)
        except (EngineError, StoreError, ChangeRefused) as error:
            return str(error)
        return None
