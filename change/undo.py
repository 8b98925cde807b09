"""Rolling back across the lanes: the newest changes that stand, each by its own lane's way, in order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import groupby
from typing import Any

from change.catalogue.knob import Lane
from change.engine import EngineError
from change.host import HostError
from change.journal import Journal
from change.lock import LockError
from change.steps import ChangeRefused
from store import StoreError
from store.models import JournalEntry

Undo = Callable[[Sequence[JournalEntry], str, float], Coroutine[Any, Any, JournalEntry]]
"""Takes back entries of one lane, newest first, for an actor, at a time (Unix seconds); returns the entry of the
rollback, closed. An outcome other than `done` says that they stand still."""


async def roll_back(
    journal: Journal,
    boot_id: str,
    n: int,
    undo: Mapping[Lane, Undo],
    *,
    actor: str,
    now: Callable[[], float],
    host_boot_id: str | None = None,
) -> tuple[list[JournalEntry], str | None]:
    """Take back the last `n` changes that stand, newest first; neighbours of one lane go together.

    `host_boot_id` is the boot of the host, if its lane can be undone here. Stops at the first that does not go back, so
    that nothing older is taken back before something newer; returns what was done, and why a later step could not be
    begun, None if all were. Raises `ChangeRefused` if fewer stand, or if a lane among them has no way back here, and
    what the first step raises: then nothing was done.
    """
    if n < 1:
        raise ChangeRefused(f"{n} changes to take back: expected 1 or more")
    standing = journal.standing_anywhere(boot_id, host_boot_id)
    if len(standing) < n:
        raise ChangeRefused(f"only {len(standing)} changes stand: there are not {n} to take back")
    last = list(reversed(standing[len(standing) - n :]))
    missing = sorted({entry.lane for entry in last if entry.lane not in undo})
    if missing:
        raise ChangeRefused(
            f"a change of the {missing[0]} lane is among the last {n}, and this configuration has no hand for it"
        )
    done: list[JournalEntry] = []
    for lane, group in groupby(last, key=_lane):
        try:
            entry = await undo[lane](list(group), actor, now())
        except (ChangeRefused, EngineError, HostError, LockError, StoreError) as error:
            if not done:
                raise
            return done, str(error)
        done.append(entry)
        if entry.outcome != "done":
            break
    return done, None


def _lane(entry: JournalEntry) -> Lane:
    match entry.lane:
        case "hot":
            return "hot"
        case "host":
            return "host"
        case "cold":
            return "cold"
        case unknown:
            raise ChangeRefused(f"change {entry.id} is of a lane {unknown!r} that this version does not know")
