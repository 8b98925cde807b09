"""Taking a promotion back: journaled where that is possible, done in any case."""

from __future__ import annotations

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
    except ChangeRefused:
        # Nothing stands since this engine started: it began without the promotion, and is to go on without it.
        journal.clear_promoted()
        return None
    except EngineError as error:
        return str(error)
    except StoreError:
        pass  # Going back to what served before must never need the journal.
    try:
        state = await control.state()
        await control.set_knobs(incumbent, if_epoch=state.epoch, lease_seconds=None)
    except EngineError as error:
        return str(error)
    return None
