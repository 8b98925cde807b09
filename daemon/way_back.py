"""Taking a promotion back: journaled where that is possible, done in any case."""

from __future__ import annotations

import contextlib

from change.apply import rollback
from change.engine import EngineControl, EngineError, Values
from change.journal import Journal
from change.steps import ChangeRefused
from store import StoreError


async def take_back(
    control: EngineControl,
    journal: Journal,
    incumbent: Values,
    campaign_id: int | None,
    actor: str,
    now: float,
) -> str | None:
    """Put the values back that served before a campaign's promotion; returns why it has to be tried again, or None.

    Nothing older is ever taken back: where the newest change that stands is another one, the promotion is gone already
    or the engine was changed on purpose since, and it is only forgotten.
    """
    try:
        state = await control.state()
        standing = journal.standing(state.boot_id)
        if standing and standing[-1].campaign_id == campaign_id:
            entry = await rollback(control, journal, 1, now, actor=actor)
            return None if entry.outcome == "done" else str(entry.reason)
    except EngineError as error:
        return str(error)
    except (ChangeRefused, StoreError):
        # Going back to what served before must never need the journal.
        try:
            state = await control.state()
            await control.set_knobs(incumbent, if_epoch=state.epoch, lease_seconds=None)
        except EngineError as error:
            return str(error)
    with contextlib.suppress(StoreError):
        promoted = journal.promoted()
        if promoted is not None and promoted.campaign_id == campaign_id:
            journal.clear_promoted()
    return None
