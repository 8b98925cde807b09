"""One change of a running engine, step by step, so that a crash between any two of them can be mended.

The values go in under a lease, are verified, and only then lose their lease: a request that arrives late, or
a daemon that dies half-way, leaves an engine that goes back by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from change.engine import EngineControl, EngineError, EngineState, StaleEpoch, Values
from change.journal import Journal, Kind, Promotion
from change.knobs import differences, problems
from change.lock import EngineLock
from store import StoreError
from store.models import JournalEntry

PROVING_LEASE_SECONDS = 30.0
"""How long unverified values may stand before the engine goes back by itself."""

_ATTEMPTS = 3
# Values that the engine has held before: it alone judges whether it can again.
_HELD_BEFORE: frozenset[str] = frozenset({"reapply", "rollback", "detach"})
_PROMOTING: frozenset[str] = frozenset({"promotion", "reapply"})


class ChangeRefused(Exception):
    """The change was not begun; the text says why."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a change does to the promoted values once it is done: sets them, clears them, or neither."""

    promotes: Promotion | None = None
    clears: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """One change to be made: knob values, why, by whom, and which entries it takes back."""

    kind: Kind
    actor: str
    values: Values
    undo: Values | None = None
    undoes: tuple[int, ...] = ()
    campaign_id: int | None = None


@contextmanager
def holding(lock: EngineLock | None) -> Iterator[None]:
    """Hold the lock for the duration, unless there is none or the caller holds it already."""
    if lock is None or lock.held:
        yield
    else:
        with lock:
            yield


async def make(
    control: EngineControl, journal: Journal, state: EngineState, order: Order, now: float
) -> JournalEntry:
    """Make one change to an engine whose state was just read; return its closed journal entry.

    Effective values other than the requested are taken back at once: the entry is then `undone`, with the
    reason. Raises `ChangeRefused` if nothing was begun, and `EngineError` or `JournalUnwritable` when the
    engine or the journal failed: an entry that could not be brought to an end then stays open for `recover`.
    """
    _check(state, order)
    undo = {name: state.values[name] for name in order.values} if order.undo is None else dict(order.undo)
    entry = journal.open(
        order.kind,
        state.boot_id,
        order.actor,
        order.values,
        undo,
        now,
        undoes=order.undoes,
        campaign_id=order.campaign_id,
    )
    try:
        wrong = await _prove(control, journal, state, order.values, undo, entry, now)
    except (EngineError, StoreError) as error:
        await _give_up(control, journal, state.boot_id, undo, entry, now, error)
        raise
    if wrong is None:
        # From here on the change stands: if the journal fails now, `recover` completes the entry.
        after = aftermath(journal, journal.entry(entry), state)
        journal.close(entry, "done", now, promotes=after.promotes, clears_promoted=after.clears)
    else:
        how = await put_back(control, state.boot_id, undo)
        journal.close(entry, "undone", now, f"{wrong}; {how}")
    return journal.entry(entry)


async def put_back(control: EngineControl, boot_id: str, undo: Values) -> str:
    """Bring the engine back to `undo` with no lease, if it does not stand there; say in words what was done.

    Nothing is done to another boot of the engine. Raises `EngineError` if it cannot be brought back.
    """
    for _ in range(_ATTEMPTS):
        state = await control.state()
        if state.boot_id != boot_id:
            return "the engine has restarted since"
        if not differences(undo, state.values) and state.lease_remaining_seconds is None:
            return "the engine held the values from before"
        try:
            answer = await control.set_knobs(undo, if_epoch=state.epoch, lease_seconds=None)
        except StaleEpoch:
            continue  # a lease ran out between the two calls
        if answer.status == "refused":
            raise EngineError(f"the engine refuses to go back: {answer.reason}")
        if wrong := differences(undo, answer.effective):
            raise EngineError(f"the engine did not go back: {'; '.join(wrong)}")
        return "the values from before were put back"
    raise EngineError("the engine is being changed by somebody else: it could not be brought back")


def aftermath(journal: Journal, entry: JournalEntry, state: EngineState) -> Aftermath:
    """Say what a verified change does to the promoted values."""
    if entry.kind == "detach":
        return Aftermath(clears=True)
    if entry.kind not in _PROMOTING and entry.kind != "rollback":
        return Aftermath()
    standing = journal.standing(entry.boot_id)
    taken_back = [e for e in standing if e.id in (entry.undoes or ())]
    if entry.kind == "rollback" and not any(e.kind in _PROMOTING or e.kind == "detach" for e in taken_back):
        return Aftermath()
    left = [e for e in _since_detach(e for e in standing if e not in taken_back) if e.kind in _PROMOTING]
    if entry.kind in _PROMOTING:
        left.append(entry)
    if not left:
        return Aftermath(clears=True)
    launch = journal.launch(entry.boot_id)
    return Aftermath(
        promotes=Promotion(
            launch={} if launch is None else launch.values,
            ceilings=state.own(state.ceilings),
            values={name: value for e in left for name, value in e.change.items()},
            campaign_id=left[-1].campaign_id,
        )
    )


def _since_detach(entries: Iterator[JournalEntry]) -> Sequence[JournalEntry]:
    kept: list[JournalEntry] = []
    for entry in entries:
        kept = [] if entry.kind == "detach" else [*kept, entry]
    return kept


def _check(state: EngineState, order: Order) -> None:
    if not state.scheduler_known:
        raise ChangeRefused(
            f"the engine's scheduler {state.scheduler} is not known to the plugin: nothing is changed"
        )
    if order.undo is None and state.lease_remaining_seconds is not None:
        raise ChangeRefused(
            f"a trial is under way (its lease ends in {state.lease_remaining_seconds:.0f} s): stop it, or "
            "try again then"
        )
    absent = [name for name in order.values if name not in state.values]
    if absent:
        raise ChangeRefused(
            f"this engine has no {', '.join(absent)}: it has {', '.join(state.values) or 'no hot knob'}"
        )
    if not order.values:
        raise ChangeRefused("there is nothing to change: give at least one knob a value")
    if order.kind in _HELD_BEFORE:
        return
    known = problems(state.values, state.ceilings, state.floors)
    new = problems({**state.values, **order.values}, state.ceilings, state.floors)
    if found := [text for text in new if text not in known]:
        raise ChangeRefused("; ".join(found))


async def _prove(
    control: EngineControl,
    journal: Journal,
    state: EngineState,
    values: Values,
    undo: Mapping[str, float],
    entry: int,
    now: float,
) -> str | None:
    """Apply under a lease, verify, take the lease off; say what is wrong, or None with the entry verified."""
    answer = await control.set_knobs(
        values, if_epoch=state.epoch, lease_seconds=PROVING_LEASE_SECONDS, revert_to=undo
    )
    if answer.status == "refused":
        return f"the engine refused: {answer.reason or 'no reason given'}"
    journal.mark(entry, "applied", now, answer.effective)
    wrong = differences(values, answer.effective)
    seen = await control.state()
    if seen.boot_id != state.boot_id:
        return "the engine restarted"
    wrong = wrong or differences(values, seen.values)
    if wrong:
        return "; ".join(wrong)
    answer = await control.set_knobs(values, if_epoch=seen.epoch, lease_seconds=None)
    if answer.status == "refused" or differences(values, answer.effective):
        return f"the engine would not keep the values: {answer.reason or answer.effective}"
    journal.mark(entry, "verified", now, answer.effective)
    return None


async def _give_up(
    control: EngineControl,
    journal: Journal,
    boot_id: str,
    undo: Values,
    entry: int,
    now: float,
    error: Exception,
) -> None:
    """Bring a failed change back as far as engine and journal allow; what is left is for `recover`."""
    try:
        how = await put_back(control, boot_id, undo)
        journal.close(entry, "undone", now, f"{error}; {how}")
    except (EngineError, StoreError) as second:
        error.add_note(f"journal entry {entry} stays open: {second}")
