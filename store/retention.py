"""Forgetting: what is older than the retention goes, what may still be needed to undo or re-apply stays."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import CursorResult, Delete, Select, delete, func, select, tuple_
from sqlalchemy.orm import Session

from store.alert_models import AlertRow, ReceivedAlert
from store.models import Campaign, Decision, JournalEntry, Launch, Pair, Promoted, Trial, Window
from store.run_retention import forget_runs
from store.session import Store

MOST_RECEIVED = 10_000
"""Alerts of Alertmanager's webhook that are kept for each engine; older ones go, whatever their age."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many campaigns, journal entries and walks of playbooks were deleted."""

    campaigns: int
    journal_entries: int
    runs: int = 0


def forget(store: Store, before: float) -> Forgotten:
    """Delete campaigns and runs that ended and journal entries that closed before a Unix time.

    Stays: what is not ended, the campaign behind what is promoted, and every change that can still be taken back: of
    the hot lane what belongs to the newest boot of an engine that was seen, of host and start-up settings what no
    rollback has taken back, whichever boot of the engine that was. Raises `StoreError`.
    """
    with store.session() as session:
        standing = _standing(session)
        promoted = select(Promoted.campaign_id).where(Promoted.campaign_id.is_not(None))
        old = select(Campaign.id).where(
            Campaign.ended < before,
            Campaign.id.not_in(promoted),
            # Without its campaign a promotion of the host would look like one that nobody saw through.
            Campaign.id.not_in({row.campaign_id for row in standing if row.campaign_id is not None}),
        )
        for table in (Decision, Pair, Window, Trial):
            session.execute(delete(table).where(table.campaign_id.in_(old)))
        campaigns = _deleted(session, delete(Campaign).where(Campaign.id.in_(old)))
        entries = _deleted(
            session,
            delete(JournalEntry).where(
                JournalEntry.closed < before,
                JournalEntry.id.not_in({row.id for row in standing}),
                tuple_(JournalEntry.engine, JournalEntry.boot_id).not_in(_newest_boots()),
            ),
        )
        session.execute(
            delete(Launch).where(
                Launch.time < before, tuple_(Launch.engine, Launch.boot_id).not_in(_newest_boots())
            )
        )
        for engine in session.scalars(select(ReceivedAlert.engine).distinct()).all():
            forget_received(session, engine)
        # Of engines that are watched no longer: those of the others go by themselves.
        session.execute(delete(AlertRow).where(AlertRow.time < before, AlertRow.state != "firing"))
        runs = forget_runs(session, before)
    return Forgotten(campaigns, entries, runs)


def forget_received(session: Session, engine: str, most: int = MOST_RECEIVED) -> int:
    """Delete all but the newest `most` alerts that came for an engine (and what came with the last of them)."""
    of_engine = ReceivedAlert.engine == engine
    newest = select(ReceivedAlert.received).where(of_engine).order_by(ReceivedAlert.received.desc())
    last = newest.offset(most - 1).limit(1)
    oldest_kept = session.scalar(last)
    if oldest_kept is None:
        return 0
    return _deleted(session, delete(ReceivedAlert).where(of_engine, ReceivedAlert.received < oldest_kept))


def _standing(session: Session) -> list[JournalEntry]:
    """Changes of host and start-up settings that were done and not taken back."""
    done = list(session.scalars(select(JournalEntry).where(JournalEntry.outcome == "done")))
    taken_back = {undone for entry in done for undone in entry.undoes or ()}
    return [
        entry
        for entry in done
        if entry.lane in ("host", "cold")
        and entry.kind not in ("rollback", "trial")
        and entry.id not in taken_back
    ]


def _newest_boots() -> Select[str, str]:
    newest = select(Launch.engine, func.max(Launch.time).label("time")).group_by(Launch.engine).subquery()
    return select(Launch.engine, Launch.boot_id).join(
        newest, (Launch.engine == newest.c.engine) & (Launch.time == newest.c.time)
    )


def _deleted(session: Session, statement: Delete) -> int:
    result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount
