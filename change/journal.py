"""The write-ahead journal: every change is on disk, with its undo, before it is made.

An entry goes intended -> applied -> verified -> closed, and may be closed from any state; only a verified one
can be closed as done. Beside it: what an engine started with and what serves by promotion.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from change.catalogue.knob import Lane
from change.engine import EngineState, Values
from store import Store, StoreError
from store.models import Campaign, JournalEntry, Launch, Promoted

Kind = Literal["trial", "adaptive", "promotion", "reapply", "manual", "rollback", "detach"]
State = Literal["intended", "applied", "verified", "closed"]
Outcome = Literal["done", "undone", "recovered"]

KINDS: frozenset[str] = frozenset(
    {"trial", "adaptive", "promotion", "reapply", "manual", "rollback", "detach"}
)
LEASED: frozenset[str] = frozenset({"trial", "adaptive"})
"""Kinds that serve under a lease only, and never stand by themselves."""
NEXT: Mapping[str, frozenset[str]] = {
    "intended": frozenset({"applied", "closed"}),
    "applied": frozenset({"verified", "closed"}),
    "verified": frozenset({"closed"}),
    "closed": frozenset(),
}


_RESTART_ACTOR = "restart "


class JournalUnwritable(StoreError):
    """The journal cannot be written, so nothing may be changed; the text says why."""


class WrongTransition(Exception):
    """An entry was asked to go where its state does not lead: a fault of the caller."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """What serves by promotion, and the launch values and ceilings under which it was proved."""

    launch: Values
    ceilings: Values
    values: Values
    campaign_id: int | None = None


class Journal:
    """The journal of one engine (named by its configured address)."""

    def __init__(self, store: Store, engine: str) -> None:
        self._store = store
        self.engine = engine

    def open(
        self,
        kind: Kind,
        boot_id: str,
        actor: str,
        change: Mapping[str, Any],
        undo: Mapping[str, Any],
        now: float,
        *,
        lane: Lane = "hot",
        undoes: Sequence[int] = (),
        campaign_id: int | None = None,
    ) -> int:
        """Write down an intended change and its undo; return the entry's id.

        A hot change holds knob values; those of the other lanes hold what their own steps read again. `undoes` are
        the entries that a rollback takes back. Raises `JournalUnwritable`: then make no change.
        """
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r} of a journal entry: expected one of {', '.join(sorted(KINDS))}")
        entry = JournalEntry(
            engine=self.engine,
            boot_id=boot_id,
            lane=lane,
            kind=kind,
            state="intended",
            intended=now,
            actor=actor,
            change=plain(change) if lane == "hot" else dict(change),
            undo=plain(undo) if lane == "hot" else dict(undo),
            undoes=list(undoes) or None,
            campaign_id=campaign_id,
        )
        with self._writing() as session:
            session.add(entry)
        return entry.id

    def mark(
        self,
        entry: int,
        state: Literal["applied", "verified"],
        now: float,
        effective: Mapping[str, Any] | None = None,
    ) -> None:
        """Move an entry on to applied or verified, with the effective values once they are known."""
        with self._writing() as session:
            row = _moved(session, entry, state)
            if state == "applied":
                row.applied = now
            else:
                row.verified = now
            if effective is not None:
                row.effective = plain(effective) if row.lane == "hot" else dict(effective)

    def close(
        self,
        entry: int,
        outcome: Outcome,
        now: float,
        reason: str | None = None,
        *,
        effective: Mapping[str, Any] | None = None,
        promotes: Promotion | None = None,
        clears_promoted: bool = False,
    ) -> None:
        """Close an entry; in the same transaction what serves by promotion is set or cleared, if asked.

        `effective`, if given, is what is known at the end, such as how a restart failed.
        """
        with self._writing() as session:
            if outcome == "done" and session.get_one(JournalEntry, entry).state != "verified":
                raise WrongTransition(f"journal entry {entry} cannot be done: it was never verified")
            row = _moved(session, entry, "closed")
            row.outcome, row.closed, row.reason = outcome, now, reason
            if effective is not None:
                row.effective = plain(effective) if row.lane == "hot" else dict(effective)
            if clears_promoted:
                self._clear_promoted(session)
            if promotes is not None:
                self._set_promoted(session, promotes, now)

    def entry(self, entry: int) -> JournalEntry:
        """Return one entry."""
        with self._store.reading() as session:
            return session.get_one(JournalEntry, entry)

    def open_entries(self, lane: Lane = "hot") -> list[JournalEntry]:
        """Return a lane's entries that are not closed, oldest first."""
        with self._store.reading() as session:
            query = self._mine().where(JournalEntry.lane == lane, JournalEntry.state != "closed")
            return list(session.scalars(query.order_by(JournalEntry.id)))

    def last(self, n: int) -> list[JournalEntry]:
        """Return the last `n` entries, newest first."""
        with self._store.reading() as session:
            return list(session.scalars(self._mine().order_by(JournalEntry.id.desc()).limit(n)))

    def done_on(self, boot_id: str, lane: Lane = "hot") -> list[JournalEntry]:
        """Return a lane's changes closed as done on one boot of the engine (host lane: of the host), oldest first."""
        with self._store.reading() as session:
            query = self._mine().where(
                JournalEntry.lane == lane,
                JournalEntry.boot_id == boot_id,
                JournalEntry.outcome == "done",
            )
            return list(session.scalars(query.order_by(JournalEntry.id)))

    def standing(self, boot_id: str, lane: Lane = "hot") -> list[JournalEntry]:
        """Return a lane's changes that a rollback could take back on this boot, oldest first."""
        return _not_taken_back(self.done_on(boot_id, lane))

    def standing_anywhere(self, boot_id: str, host_boot_id: str | None = None) -> list[JournalEntry]:
        """Return the changes of every lane that a rollback could take back now, oldest first.

        A hot one stands on its own boot of the engine only, one of the host on that of the host (of none if not given),
        a restart until it is taken back. Values that a restart took along to the new boot come before it.
        """
        with self._store.reading() as session:
            query = self._mine().where(
                JournalEntry.outcome == "done",
                (JournalEntry.lane == "cold")
                | ((JournalEntry.lane == "hot") & (JournalEntry.boot_id == boot_id))
                | ((JournalEntry.lane == "host") & (JournalEntry.boot_id == host_boot_id)),
            )
            done = list(session.scalars(query.order_by(JournalEntry.id)))
        # Hot values that a restart took along are older than it: rolling back one change means the restart.
        return sorted(_not_taken_back(done), key=lambda entry: taken_along_by(entry) or (entry.id, 1))

    def since(self, lane: Lane, time: float) -> list[JournalEntry]:
        """Return a lane's entries that were intended at `time` (Unix seconds) or later, or are open still."""
        with self._store.reading() as session:
            query = self._mine().where(
                JournalEntry.lane == lane,
                (JournalEntry.intended >= time) | (JournalEntry.state != "closed"),
            )
            return list(session.scalars(query.order_by(JournalEntry.id)))

    def campaign_promoted(self, campaign_id: int) -> bool:
        """Whether a campaign ended with a promotion that stood its probation."""
        with self._store.reading() as session:
            campaign = session.get(Campaign, campaign_id)
            return campaign is not None and campaign.decision == "promoted"

    def promoted(self, engine: str | None = None) -> Promoted | None:
        """Return what serves by promotion on an engine (this one by default), or None."""
        with self._store.reading() as session:
            return session.get(Promoted, self.engine if engine is None else engine)

    def set_promoted(self, promotion: Promotion, now: float) -> None:
        """Record what serves by promotion; `close(promotes=...)` does it in one step with the closing."""
        with self._writing() as session:
            self._set_promoted(session, promotion, now)

    def clear_promoted(self) -> None:
        """Forget what serves by promotion, if anything does."""
        with self._writing() as session:
            self._clear_promoted(session)

    def note_launch(self, state: EngineState, now: float) -> Launch | None:
        """Remember what this boot started with, if nobody has changed it yet; return what is known of it."""
        known = self.launch(state.boot_id)
        if known is not None or state.epoch != 0:
            return known
        launch = Launch(
            engine=self.engine,
            boot_id=state.boot_id,
            engine_version=state.engine_version,
            values=plain(state.own(state.values)),
            ceilings=plain(state.own(state.ceilings)),
            time=now,
        )
        with self._writing() as session:
            session.add(launch)
        return launch

    def launched_after(self, time: float) -> float | None:
        """Return when the first boot after `time` was seen serving (both Unix seconds), None if none was."""
        with self._store.reading() as session:
            query = select(func.min(Launch.time)).where(Launch.engine == self.engine, Launch.time > time)
            return session.scalar(query)

    def last_launch(self) -> Launch | None:
        """Return what the boot that was seen last started with, or None if none was."""
        with self._store.reading() as session:
            query = select(Launch).where(Launch.engine == self.engine).order_by(Launch.time.desc()).limit(1)
            return session.scalar(query)

    def launch(self, boot_id: str) -> Launch | None:
        """Return what a boot started with, or None if it was first seen after a change."""
        with self._store.reading() as session:
            return session.get(Launch, (self.engine, boot_id))

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        try:
            with self._store.session() as session:
                yield session
        except StoreError as error:
            raise JournalUnwritable(
                f"the journal cannot be written, so nothing may be changed: {error}"
            ) from error

    def _mine(self) -> Any:
        return select(JournalEntry).where(JournalEntry.engine == self.engine)

    def _set_promoted(self, session: Session, promotion: Promotion, now: float) -> None:
        session.merge(
            Promoted(
                engine=self.engine,
                launch=plain(promotion.launch),
                ceilings=plain(promotion.ceilings),
                values=plain(promotion.values),
                campaign_id=promotion.campaign_id,
                time=now,
            )
        )

    def _clear_promoted(self, session: Session) -> None:
        row = session.get(Promoted, self.engine)
        if row is not None:
            session.delete(row)


def plain(values: Values) -> dict[str, float]:
    """Copy knob values into a dict of finite numbers, which is what the store may keep."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}: expected a finite number")
    return dict(values)


def restart_actor(entry: int) -> str:
    """Who sets the hot values again in the restart of a cold entry."""
    return f"{_RESTART_ACTOR}{entry}"


def taken_along_by(entry: JournalEntry) -> tuple[int, int] | None:
    """Where a hot entry that a restart made belongs among the others; None for any other entry."""
    number = entry.actor.removeprefix(_RESTART_ACTOR)
    made = entry.lane == "hot" and number != entry.actor and number.isdecimal()
    return (int(number), 0) if made else None


def _not_taken_back(done: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Changes that stand by themselves: neither a rollback nor a part of a trial."""
    taken_back = {undone for entry in done for undone in entry.undoes or ()}
    return [entry for entry in done if entry.kind not in ("rollback", *LEASED) and entry.id not in taken_back]


def _moved(session: Session, entry: int, state: State) -> JournalEntry:
    row = session.get_one(JournalEntry, entry)
    if state not in NEXT[row.state]:
        raise WrongTransition(f"journal entry {entry} is {row.state} and cannot become {state}")
    row.state = state
    return row
