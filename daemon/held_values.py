"""The hot values of a cold campaign: put in force after each restart, and what of them the journal calls promoted."""

from __future__ import annotations

import structlog

from change.apply import change
from change.engine import EngineControl, EngineError, EngineState
from change.journal import Journal, Promotion
from change.knobs import differences
from change.steps import ChangeRefused
from store import StoreError
from tuner.outer.messages import Held, Hold

log = structlog.get_logger(__name__)


class HeldValues:
    """One engine's hot values between restarts."""

    def __init__(self, control: EngineControl, journal: Journal) -> None:
        self._control = control
        self._journal = journal
        self._of_incumbent: Promotion | None = None

    async def hold(self, now: float, order: Hold, campaign: int | None) -> Held:
        """Put hot values in force; what stands is what comes back after any later restart."""
        try:
            state = await self._control.state()
            if differences(order.values, state.values):
                entry = await change(
                    self._control,
                    self._journal,
                    order.values,
                    kind="promotion" if order.stands else "trial",
                    actor=f"campaign {campaign}",
                    now=now,
                    campaign_id=campaign,
                )
                if entry.outcome != "done":
                    return Held(state, entry.reason or "they were taken back")
            elif order.stands:
                self._stand(state, order, campaign, now)
            return Held(await self._control.state())
        except (EngineError, StoreError, ChangeRefused) as error:
            return Held(None, str(error))

    def remember(self) -> None:
        """The incumbent serves: what is promoted now is the incumbent's."""
        row = self._journal.promoted()
        self._of_incumbent = (
            None if row is None else Promotion(row.launch, row.ceilings, row.values, row.campaign_id)
        )

    def restore(self, now: float) -> None:
        """What a hot campaign promoted inside a candidate is not what the incumbent comes back with."""
        try:
            if self._of_incumbent is None:
                self._journal.clear_promoted()
            else:
                self._journal.set_promoted(self._of_incumbent, now)
        except StoreError as error:
            log.error("what was promoted on the incumbent could not be written down again", error=str(error))

    def note_launch(self, state: EngineState, now: float) -> None:
        """Remember what a start began with, before anything is changed there."""
        try:
            self._journal.note_launch(state, now)
        except StoreError as error:
            log.error("what the engine started with could not be written down", error=str(error))

    def _stand(self, state: EngineState, order: Hold, campaign: int | None, now: float) -> None:
        """The engine holds what is to stand: promoted values if it did not start with them."""
        launch = self._journal.launch(state.boot_id)
        if launch is not None and not differences(order.values, launch.values):
            self._journal.clear_promoted()
            return
        started = {} if launch is None else launch.values
        self._journal.set_promoted(Promotion(started, state.ceilings, order.values, campaign), now)
