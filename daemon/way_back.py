"""Taking a promotion back: journaled where that is possible, done in any case."""

from __future__ import annotations

import contextlib

from change.apply import rollback
from change.engine import EngineControl, EngineError, Values
from change.journal import Journal
from change.steps import ChangeRefused
from store import StoreError


async def take_back(
    control: EngineControl, journal: Journal, incumbent: Values, actor: str, now: float
) -> str | None:
    """Put the values back that served before the newest promotion; returns why it has to be tried again, or None."""
    try:
        entry = await rollback(control, journal, 1, now, actor=actor)
        return None if entry.outcome == "done" else str(entry.reason)
    except EngineError as error:
        return str(error)
    except (ChangeRefused, StoreError):
        pass  # Going back to what served before must never need the journal.
    try:
        state = await control.state()
        if _may_stand(journal, state.boot_id):
            await control.set_knobs(incumbent, if_epoch=state.epoch, lease_seconds=None)
    except EngineError as error:
        return str(error)
    with contextlib.suppress(StoreError):
        journal.clear_promoted()
    return None


def _may_stand(journal: Journal, boot_id: str) -> bool:
    """Whether this boot of the engine may hold the promotion; one that began without it is to go on without it."""
    try:
        return bool(journal.standing(boot_id))
    except StoreError:
        return True
