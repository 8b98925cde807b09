"""Changes of the host lane, step by step: journaled with their undo before they are made, and back after a crash.

`boot_id` is everywhere the kernel's (`/proc/sys/kernel/random/boot_id`): what a host lane sets ends with the host, and
what it set on an engine's processes with these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from change.host import HostChange, HostControl, HostError, HostReading
from change.host_knobs import HOST_KNOBS
from change.journal import Journal, Kind
from change.lock import EngineLock, NodeLock
from change.steps import ChangeRefused
from store import StoreError
from store.models import JournalEntry

_HOST_RESTARTED = "the host has restarted since: the change went with it"
LASTING: frozenset[str] = frozenset({"promotion", "reapply"})
"""As in the hot lane: what a person sets by hand ends with the engine's processes."""


class InForceAlready(ChangeRefused):
    """The host reads as asked, so there is nothing to change."""


@dataclass(frozen=True, slots=True)
class HostLocks:
    """What is held while the host lane changes something: the engine's locks, and the node's for node-wide knobs.

    An engine has one by its boot, where its plugin tells it, and one by its process, which the host lane takes always.
    """

    engine: EngineLock | None = None
    node: NodeLock | None = None
    process: EngineLock | None = None

    @contextmanager
    def holding(self, *, node_wide: bool) -> Iterator[None]:
        """Hold them for the duration; one that the caller holds already stays held afterwards."""
        wanted = [self.engine, self.process, self.node if node_wide else None]
        with ExitStack() as stack:
            for lock in wanted:
                if lock is not None and not lock.held:
                    stack.enter_context(lock)
            yield


NO_LOCKS = HostLocks()
"""For a caller that holds what it needs itself."""


async def change_host(
    control: HostControl,
    journal: Journal,
    changes: Sequence[HostChange],
    *,
    boot_id: str,
    kind: Kind,
    actor: str,
    now: float,
    locks: HostLocks = NO_LOCKS,
    undoes: Sequence[int] = (),
    campaign_id: int | None = None,
) -> JournalEntry:
    """Make changes for good, in their order, and return the closed journal entry.

    A value that does not read back as asked is taken back with all others: the entry is then `undone`, with the
    reason. Raises `ChangeRefused` if nothing was begun, `HostError` or `JournalUnwritable` when the host or the
    journal failed: an entry that could not be brought to an end then stays open for `recover_host`.
    """
    _check(changes)
    with locks.holding(node_wide=_node_wide(one.knob for one in changes)):
        before = await _readings(control, changes)
        if all(before[one.knob].value == one.value for one in changes):
            raise InForceAlready(f"nothing to change: {_words(changes)} is in force already")
        entry = _open(journal, changes, before, boot_id, kind, actor, now, undoes, campaign_id)
        try:
            wrong = await _prove(control, journal, changes, entry, now)
        except (HostError, StoreError) as error:
            await _give_up(control, journal, entry, now, error)
            raise
        if wrong is None:
            journal.close(entry, "done", now)
        else:
            how = await put_back(control, journal.entry(entry).undo)
            journal.close(entry, "undone", now, f"{wrong}; {how}")
        return journal.entry(entry)


async def begin_trial(
    control: HostControl,
    journal: Journal,
    changes: Sequence[HostChange],
    *,
    boot_id: str,
    actor: str,
    now: float,
    campaign_id: int | None = None,
) -> JournalEntry:
    """Write a candidate down with its undo, and change nothing yet; return the open entry.

    From here until `end_trial` the caller may `apply` the candidate and go back by `put_back` as often as it likes,
    and holds the locks. Raises `ChangeRefused` for a knob that could not be put back.
    """
    _check(changes)
    before = await _readings(control, changes)
    entry = _open(journal, changes, before, boot_id, "trial", actor, now, (), campaign_id)
    return journal.entry(entry)


async def end_trial(
    control: HostControl, journal: Journal, entry: int, now: float, reason: str | None = None
) -> JournalEntry:
    """Put back what was there before the trial and close its entry as undone; raises `HostError` if it cannot."""
    how = await put_back(control, journal.entry(entry).undo)
    journal.close(entry, "undone", now, how if reason is None else f"{reason}; {how}")
    return journal.entry(entry)


async def recover_host(
    control: HostControl, journal: Journal, now: float, *, boot_id: str, locks: HostLocks = NO_LOCKS
) -> list[JournalEntry]:
    """Bring every open entry of the host lane to an end, newest first; return them closed.

    A verified change is closed as done; everything else goes back and is closed as recovered. Raises `HostError`
    when something cannot be put back: that entry and older ones stay open, so try again.
    """
    if not journal.open_entries("host"):
        return []
    wide = _node_wide(knob for entry in journal.open_entries("host") for knob in entry.undo)
    with locks.holding(node_wide=wide):
        # Read under the lock: whoever held it may have closed its own meanwhile.
        unfinished = journal.open_entries("host")
        for entry in reversed(unfinished):
            if entry.boot_id != boot_id:
                journal.close(entry.id, "recovered", now, _HOST_RESTARTED)
            elif entry.state == "verified" and entry.kind != "trial":
                journal.close(entry.id, "done", now, "completed after a restart of Trimtab")
            else:
                how = await put_back(control, entry.undo)
                journal.close(entry.id, "recovered", now, f"Trimtab ended half-way; {how}")
    return [journal.entry(entry.id) for entry in reversed(unfinished)]


async def rollback_host(
    control: HostControl,
    journal: Journal,
    n: int,
    now: float,
    *,
    boot_id: str,
    actor: str,
    locks: HostLocks = NO_LOCKS,
) -> JournalEntry:
    """Take back the last `n` changes of the host lane that stand on this boot of the host, newest first.

    Raises `ChangeRefused` if fewer stand, else as `change_host`.
    """
    standing = journal.standing(boot_id, "host")
    if not 1 <= n <= len(standing):
        raise ChangeRefused(
            f"{len(standing)} changes of the host lane stand since the host started: there are not {n} to take back"
        )
    last = standing[len(standing) - n :]
    knobs = dict.fromkeys(knob for entry in reversed(last) for knob in entry.undo)
    # What each knob was before the oldest of them.
    targets = {knob: next(e.undo[knob]["was"] for e in last if knob in e.undo) for knob in knobs}
    with locks.holding(node_wide=_node_wide(knobs)):
        before = {knob: await control.read(knob) for knob in knobs}
        entry = journal.open(
            "rollback",
            boot_id,
            actor,
            targets,
            {knob: _undo_of(reading) for knob, reading in before.items()},
            now,
            lane="host",
            undoes=[entry.id for entry in last],
        )
        try:
            hows = [await put_back(control, one.undo) for one in reversed(last)]
            seen = {knob: (await control.read(knob)).value for knob in knobs}
            journal.mark(entry, "applied", now, seen)
            journal.mark(entry, "verified", now, seen)
        except (HostError, StoreError) as error:
            await _give_up(control, journal, entry, now, error)
            raise
        journal.close(entry, "done", now, hows[-1])
        return journal.entry(entry)


async def reapply_host(
    control: HostControl,
    journal: Journal,
    now: float,
    *,
    boot_id: str,
    actor: str,
    locks: HostLocks = NO_LOCKS,
) -> JournalEntry | None:
    """After a restart of the engine, set anew what was promoted on its processes; None if there is nothing to do.

    Node-wide knobs outlive an engine and are left alone: whoever changed one since meant it. The new entry takes the
    place of the old ones, whose threads are gone.
    """
    changes, replaced = await _promoted_elsewhere(control, journal, boot_id)
    if not changes:
        return None
    return await change_host(
        control,
        journal,
        changes,
        boot_id=boot_id,
        kind="reapply",
        actor=actor,
        now=now,
        locks=locks,
        undoes=replaced,
    )


async def promoted_holds(control: HostControl, journal: Journal, *, boot_id: str) -> bool:
    """Whether all that was promoted on the engine's processes reads back; raises `HostError`."""
    return not (await _promoted_elsewhere(control, journal, boot_id))[0]


async def put_back(control: HostControl, undo: Mapping[str, Any]) -> str:
    """Restore the knobs of an entry's undo, the last changed first; say in words what was done.

    One that cannot be restored does not keep the others from it: `HostError` is raised once all were tried.
    """
    strange: list[str] = []
    failed: list[str] = []
    for knob, before in reversed(list(undo.items())):
        if not before["with"]:
            strange.append(f"what {knob} was is not known")
            continue
        try:
            after = await control.restore(knob, before["with"])
        except HostError as error:
            failed.append(f"{knob}: {error}")
            continue
        if after.value != before["was"]:
            now = after.value or f"unknown ({after.reason or 'no reason given'})"
            strange.append(f"{knob} was {before['was']} and is {now}")
    if failed:
        raise HostError(f"not put back: {'; '.join(failed)}")
    return "what was there before was put back" + (f", but {'; '.join(strange)}" if strange else "")


def values_before(undo: Mapping[str, Any]) -> dict[str, Any]:
    """The value each knob had before, of an entry's undo, which itself may be long: a word for every page."""
    return {knob: before["was"] for knob, before in undo.items()}


async def _promoted_elsewhere(
    control: HostControl, journal: Journal, boot_id: str
) -> tuple[list[HostChange], list[int]]:
    """What was promoted on the engine's processes and is not in force, and the entries that setting it replaces."""
    wanted: dict[str, str] = {}
    replaced: list[int] = []
    for entry in journal.standing(boot_id, "host"):
        if entry.kind not in LASTING:
            continue
        own = [knob for knob in entry.change if not _node_wide([knob])]
        wanted |= {knob: str(entry.change[knob]) for knob in own}
        if len(own) == len(entry.change):
            replaced.append(entry.id)
    changes = [
        HostChange(knob, value)
        for knob, value in wanted.items()
        if (await control.read(knob)).value not in (value, None)
    ]
    return changes, replaced


def _check(changes: Sequence[HostChange]) -> None:
    names = [one.knob for one in changes]
    if not names:
        raise ChangeRefused("there is nothing to change: give at least one knob a value")
    if unknown := [name for name in names if name not in HOST_KNOBS]:
        raise ChangeRefused(f"the host lane has no {', '.join(unknown)}: it has {', '.join(HOST_KNOBS)}")
    if len(set(names)) < len(names):
        raise ChangeRefused(f"one knob has two values: {_words(changes)}")


def _node_wide(knobs: Iterable[str]) -> bool:
    return any(HOST_KNOBS[knob].scope == "node" for knob in knobs)


async def _readings(control: HostControl, changes: Sequence[HostChange]) -> dict[str, HostReading]:
    found = {one.knob: await control.read(one.knob) for one in changes}
    for knob, reading in found.items():
        if reading.undo is None:
            raise ChangeRefused(
                f"{knob} could not be put back, so it is not changed: {reading.reason or 'it cannot be read'}"
            )
    return found


def _undo_of(reading: HostReading) -> dict[str, Any]:
    return {"was": reading.value, "with": dict(reading.undo or {})}


def _open(
    journal: Journal,
    changes: Sequence[HostChange],
    before: Mapping[str, HostReading],
    boot_id: str,
    kind: Kind,
    actor: str,
    now: float,
    undoes: Sequence[int],
    campaign_id: int | None,
) -> int:
    return journal.open(
        kind,
        boot_id,
        actor,
        {one.knob: one.value for one in changes},
        {one.knob: _undo_of(before[one.knob]) for one in changes},
        now,
        lane="host",
        undoes=undoes,
        campaign_id=campaign_id,
    )


async def _prove(
    control: HostControl, journal: Journal, changes: Sequence[HostChange], entry: int, now: float
) -> str | None:
    """Apply, and read all of it back when the last is set; say what is wrong, or None with the entry verified."""
    for one in changes:
        await control.apply(one)
    journal.mark(entry, "applied", now)
    after = {one.knob: await control.read(one.knob) for one in changes}
    wrong = [
        f"{one.knob} was asked to be {one.value} and is {after[one.knob].value or 'unknown'}"
        + (f" ({reason})" if (reason := after[one.knob].reason) else "")
        for one in changes
        if after[one.knob].value != one.value
    ]
    if wrong:
        return "; ".join(wrong)
    journal.mark(entry, "verified", now, {knob: reading.value for knob, reading in after.items()})
    return None


async def _give_up(control: HostControl, journal: Journal, entry: int, now: float, error: Exception) -> None:
    """Bring a failed change back as far as host and journal allow; what is left is for `recover_host`."""
    try:
        how = await put_back(control, journal.entry(entry).undo)
        journal.close(entry, "undone", now, f"{error}; {how}")
    except (HostError, StoreError) as second:
        error.add_note(f"journal entry {entry} stays open: {second}")


def _words(changes: Sequence[HostChange]) -> str:
    return ", ".join(f"{one.knob}={one.value}" for one in changes)
