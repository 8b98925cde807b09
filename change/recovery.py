"""After a crash of the daemon or a restart of the engine: open changes are ended, the winner put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from change.engine import EngineControl, EngineState, Values
from change.journal import LEASED, Journal
from change.knobs import differences
from change.lock import EngineLock
from change.steps import Order, aftermath, holding, make, put_back
from store.models import JournalEntry

_RESTARTED = "the engine has restarted since: the change went with it"


@dataclass(frozen=True, slots=True)
class Reapplied:
    """What became of the promoted values at an engine's start, and in words why."""

    outcome: Literal["nothing", "held", "reapplied", "refused", "other_flags", "unknown"]
    text: str
    entry: JournalEntry | None = None


async def recover(
    control: EngineControl, journal: Journal, now: float, *, lock: EngineLock | None = None
) -> list[JournalEntry]:
    """Bring every open journal entry to an end, newest first; return them closed.

    On the same boot of the engine a verified change that still stands is closed as done; everything else goes
    back to its undo values and is closed as recovered. Changes of an earlier boot went with it. Raises
    `EngineError` when the engine cannot be asked: the entries stay open, so try again.
    """
    if not journal.open_entries():
        return []
    with holding(lock):
        # Read under the lock: whoever held it may have closed its own meanwhile.
        unfinished = journal.open_entries()
        state = await control.state()
        journal.note_launch(state, now)
        for entry in reversed(unfinished):
            if entry.boot_id != state.boot_id:
                journal.close(entry.id, "recovered", now, _RESTARTED)
            elif entry.state == "verified" and entry.kind not in LEASED:
                await _finish(control, journal, entry, now)
            else:
                await _take_back(control, journal, entry, now)
    return [journal.entry(entry.id) for entry in reversed(unfinished)]


async def reapply_promoted(
    control: EngineControl, journal: Journal, now: float, *, lock: EngineLock | None = None
) -> Reapplied:
    """After a restart of the engine with the flags it had, apply what was promoted; with other flags never.

    Call it after `recover`, at start and whenever the boot id changes: on a boot already handled it does
    nothing.
    """
    state = await control.state()
    launch = journal.note_launch(state, now)
    promoted = journal.promoted()
    if promoted is None:
        return Reapplied("nothing", "nothing is promoted")
    if not differences(promoted.values, state.values) and state.lease_remaining_seconds is None:
        return Reapplied("held", "the engine holds the promoted values")
    if journal.done_on(state.boot_id):
        return Reapplied("nothing", "this boot of the engine was changed on purpose since the promotion")
    if launch is None:
        return Reapplied(
            "unknown",
            "the promoted values are not re-applied: the engine was changed before it was first seen, so "
            "that the values it started with are not known",
        )
    if other := _other_flags(promoted.launch, launch.values, "") + _other_flags(
        promoted.ceilings, launch.ceilings, "the ceiling of "
    ):
        return Reapplied(
            "other_flags",
            f"the promoted values are not re-applied: the engine started otherwise ({'; '.join(other)})",
        )
    with holding(lock):
        order = Order("reapply", "recovery", promoted.values, campaign_id=promoted.campaign_id)
        entry = await make(control, journal, state, order, now)
    if entry.outcome != "done":
        return Reapplied("refused", f"the promoted values do not hold: {entry.reason}", entry)
    return Reapplied(
        "reapplied", "the engine started with the flags it had: the promoted values serve", entry
    )


async def _finish(control: EngineControl, journal: Journal, entry: JournalEntry, now: float) -> None:
    """Close a verified change: it stands if the engine still holds it, else somebody has changed it since."""
    state = await control.state()
    if state.boot_id == entry.boot_id and _holds(state, entry.change):
        after = aftermath(journal, entry, state)
        journal.close(
            entry.id,
            "done",
            now,
            "verified before a crash, completed at start",
            promotes=after.promotes,
            clears_promoted=after.clears,
        )
    else:
        journal.close(entry.id, "recovered", now, "the engine holds other values by now: left as they are")


async def _take_back(control: EngineControl, journal: Journal, entry: JournalEntry, now: float) -> None:
    """Put the undo values back, except for knobs that a newer change has set on purpose."""
    newer = {name for done in journal.done_on(entry.boot_id) if done.id > entry.id for name in done.change}
    undo = {name: value for name, value in entry.undo.items() if name not in newer}
    how = await put_back(control, entry.boot_id, undo) if undo else "a newer change stands in its place"
    journal.close(entry.id, "recovered", now, f"left {entry.state} by a crash: {how}")


def _holds(state: EngineState, values: Values) -> bool:
    return state.lease_remaining_seconds is None and not differences(values, state.values)


def _other_flags(before: Values, after: Values, what: str) -> list[str]:
    if not before:
        return [f"{what or 'what it started with '}is not known from the time of the promotion"]
    return [
        f"{what}{name} is {after.get(name, 'absent')}, was {before.get(name, 'absent')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
