"""What the face reads from the store, in the shapes of its API."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from change.host_steps import values_before
from store import queries
from store.models import Campaign, Decision, JournalEntry, Pair, Trial, Window
from web import shapes

Revision = tuple[tuple[object, ...], ...]


def campaigns(session: Session, limit: int) -> list[shapes.CampaignSummary]:
    """List campaigns, newest first."""
    return [shapes.CampaignSummary.model_validate(row) for row in queries.campaigns(session, limit=limit)]


def newest_campaign(session: Session) -> int | None:
    """Return the newest campaign's number."""
    return session.scalar(select(func.max(Campaign.id)))


def campaign(session: Session, id: int) -> shapes.CampaignDetail | None:
    """Read one campaign with its trials, pairs, windows and decisions."""
    whole = queries.whole_campaign(session, id)
    if whole is None:
        return None
    return shapes.CampaignDetail(
        **shapes.CampaignSummary.model_validate(whole.campaign).model_dump(),
        trials=[shapes.Trial.model_validate(trial) for trial in whole.trials],
        pairs=[shapes.Pair.model_validate(pair) for pair in whole.pairs],
        windows=[shapes.Window.model_validate(window) for window in whole.windows],
        decisions=[shapes.Decision.model_validate(decision) for decision in whole.decisions],
    )


def journal(session: Session, limit: int, before: int | None) -> list[shapes.JournalEntry]:
    """List journal entries, newest first, older than entry `before`."""
    rows = queries.journal(session, limit=limit, before=before)
    return [_entry(row) for row in rows]


def _entry(row: JournalEntry) -> shapes.JournalEntry:
    entry = shapes.JournalEntry.model_validate(row)
    # A host's undo has a word for every thread and page: what it was is told, not how it is put back.
    return entry.model_copy(update={"undo": values_before(row.undo)}) if row.lane == "host" else entry


def revision(session: Session) -> Revision:
    """Return a value that differs whenever a page would: the newest rows, and what may still change."""
    newest = newest_campaign(session)
    heads = session.execute(
        select(
            select(func.max(Window.id)).scalar_subquery(),
            select(func.max(Pair.id)).scalar_subquery(),
            select(func.max(Decision.id)).scalar_subquery(),
            select(func.max(JournalEntry.id)).scalar_subquery(),
            select(func.max(JournalEntry.closed)).scalar_subquery(),
        )
    ).one()
    unclosed = session.execute(
        select(JournalEntry.id, JournalEntry.state).where(JournalEntry.state != "closed")
    ).all()
    head = session.execute(
        select(Campaign.id, Campaign.phase, Campaign.decision, Campaign.ended).where(Campaign.id == newest)
    ).all()
    trials = session.execute(
        select(Trial.number, Trial.state, Trial.reason, Trial.effect).where(Trial.campaign_id == newest)
    ).all()
    return tuple(_row(row) for row in (heads, *unclosed, *head, *trials))


def _row(row: Sequence[object]) -> tuple[object, ...]:
    # Effects are JSON objects: their text compares as well and may be hashed.
    return tuple(repr(item) if isinstance(item, dict) else item for item in row)
