"""Forgetting: what is older than the retention goes, what may still be needed to undo or re-apply stays."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import CursorResult, Delete, Select, delete, func, select, tuple_
from sqlalchemy.orm import Session

from store.models import Campaign, Decision, JournalEntry, Launch, Pair, Promoted, Trial, Window
from store.session import Store


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many campaigns and journal entries were deleted."""

    campaigns: int
    journal_entries: int


def forget(store: Store, before: float) -> Forgotten:
    """Delete campaigns that ended and journal entries that closed before a Unix time.

    Stays: what is not ended, the campaign behind what is promoted, and what belongs to the newest boot of an
    engine that was seen, since its changes can still be taken back. Raises `StoreError`.
    """
    with store.session() as session:
        promoted = select(Promoted.campaign_id).where(Promoted.campaign_id.is_not(None))
        old = select(Campaign.id).where(Campaign.ended < before, Campaign.id.not_in(promoted))
        for table in (Decision, Pair, Window, Trial):
            session.execute(delete(table).where(table.campaign_id.in_(old)))
        campaigns = _deleted(session, delete(Campaign).where(Campaign.id.in_(old)))
        entries = _deleted(
            session,
            delete(JournalEntry).where(
                JournalEntry.closed < before,
                tuple_(JournalEntry.engine, JournalEntry.boot_id).not_in(_newest_boots()),
            ),
        )
        session.execute(
            delete(Launch).where(
                Launch.time < before, tuple_(Launch.engine, Launch.boot_id).not_in(_newest_boots())
            )
        )
    return Forgotten(campaigns, entries)


def _newest_boots() -> Select[str, str]:
    newest = select(Launch.engine, func.max(Launch.time).label("time")).group_by(Launch.engine).subquery()
    return select(Launch.engine, Launch.boot_id).join(
        newest, (Launch.engine == newest.c.engine) & (Launch.time == newest.c.time)
    )


def _deleted(session: Session, statement: Delete) -> int:
    result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount
