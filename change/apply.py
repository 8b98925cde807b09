"""Everything that changes a running engine, for the CLI and the daemon: through the journal and the lock."""

from __future__ import annotations

from change.engine import EngineControl, Values
from change.journal import Journal, Kind
from change.lock import EngineLock
from change.recovery import Reapplied, reapply_promoted, recover
from change.steps import ChangeRefused, Order, holding, make
from store.models import JournalEntry

__all__ = ["ChangeRefused", "Reapplied", "change", "detach", "reapply_promoted", "recover", "rollback"]


async def change(
    control: EngineControl,
    journal: Journal,
    values: Values,
    *,
    kind: Kind,
    actor: str,
    now: float,
    lock: EngineLock | None = None,
    undo: Values | None = None,
    campaign_id: int | None = None,
) -> JournalEntry:
    """Apply values for good and return the closed journal entry; see `make` for what it raises.

    `undo` is what to go back to, where it is not what the engine holds now (a promotion at the end of a
    trial). Kind `promotion` records the values as promoted, to be re-applied after a restart of the engine.
    """
    with holding(lock):
        state = await control.state()
        journal.note_launch(state, now)
        return await make(control, journal, state, Order(kind, actor, values, undo, (), campaign_id), now)


async def rollback(
    control: EngineControl,
    journal: Journal,
    n: int,
    now: float,
    *,
    actor: str = "cli",
    lock: EngineLock | None = None,
) -> JournalEntry:
    """Take back the last `n` changes that stand on this boot of the engine, in one change.

    The promoted values follow: those of the newest promotion left, or none. Raises `ChangeRefused` if fewer
    stand.
    """
    if n < 1:
        raise ChangeRefused(f"{n} changes to take back: expected 1 or more")
    with holding(lock):
        state = await control.state()
        journal.note_launch(state, now)
        standing = journal.standing(state.boot_id)
        if len(standing) < n:
            raise ChangeRefused(
                f"only {len(standing)} changes stand since the engine started: there are not {n} to take back"
            )
        last = standing[len(standing) - n :]
        values = {name: value for entry in reversed(last) for name, value in entry.undo.items()}
        order = Order("rollback", actor, values, undoes=tuple(entry.id for entry in last))
        return await make(control, journal, state, order, now)


async def detach(
    control: EngineControl,
    journal: Journal,
    now: float,
    *,
    actor: str = "cli",
    lock: EngineLock | None = None,
) -> JournalEntry:
    """Give the engine its launch values back, forget what was promoted and open the gate if it is closed.

    Raises `ChangeRefused` if the launch values are not known: the engine was changed before it was first
    seen.
    """
    with holding(lock):
        state = await control.state()
        launch = journal.note_launch(state, now)
        if launch is None:
            raise ChangeRefused(
                "the engine was changed before it was first seen, so that the values it started with are "
                "not known: restart it, or apply them by hand"
            )
        entry = await make(control, journal, state, Order("detach", actor, launch.values), now)
        if state.gate == "closed":
            await control.gate("open", lease_seconds=1.0, retry_after=1.0)
        return entry
