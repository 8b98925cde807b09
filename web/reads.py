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
    """Return the newest campaign's number; not of one inside another."""
    return session.scalar(select(func.max(Campaign.id)).where(Campaign.parent.is_(None)))


def campaign(session: Session, id: int) -> shapes.CampaignDetail | None:
    """Read one campaign with its trials, pairs, windows and decisions."""
    whole = queries.whole_campaign(session, id)
    if whole is None:
        return None
    return shapes.CampaignDetail(
        **shapes.CampaignSummary.model_validate(whole.campaign).model_dump(),
        inner=[_inner(hot, whole.trials) for hot in queries.inner_campaigns(session, id)],
        trials=[shapes.Trial.model_validate(trial) for trial in whole.trials],
        pairs=[shapes.Pair.model_validate(pair) for pair in whole.pairs],
        windows=[shapes.Window.model_validate(window) for window in whole.windows],
        decisions=[shapes.Decision.model_validate(decision) for decision in whole.decisions],
    )


def _inner(hot: Campaign, trials: Sequence[Trial]) -> shapes.Inner:
    """Trials are visited one after the other: the one begun last before it is the one it ran in."""
    before = [trial for trial in trials if trial.started is not None and trial.started <= hot.started]
    within = max(before, key=lambda trial: trial.started or 0.0, default=None)
    return shapes.Inner(
        id=hot.id,
        trial=None if within is None else within.number,
        started=hot.started,
        ended=hot.ended,
        phase=hot.phase,
        decision=hot.decision,
        effect=(hot.report or {}).get("effect"),
    )


def journal(session: Session, limit: int, before: int | None) -> list[shapes.JournalEntry]:
    """List journal entries, newest first, older than entry `before`."""
    rows = queries.journal(session, limit=limit, before=before)
    return [_entry(row) for row in rows]


def _entry(row: JournalEntry) -> shapes.JournalEntry:
    """Of a restart its settings are shown, and not the whole command; of a host change what was, not how to undo it."""
    entry = shapes.JournalEntry.model_validate(row)
    if row.lane == "host":
        return entry.model_copy(update={"undo": values_before(row.undo)})
    if entry.lane != "cold":
        return entry
    settings = {
        part: getattr(entry, part).get("settings", {})
        for part in ("change", "undo", "effective")
        if getattr(entry, part) is not None
    }
    return entry.model_copy(update=settings)


def revision(session: Session) -> Revision:
    """Return a value that differs whenever a page would: the newest rows, and what may still change."""
    newest = [newest_campaign(session), session.scalar(select(func.max(Campaign.id)))]
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
        select(Campaign.id, Campaign.phase, Campaign.decision, Campaign.ended).where(Campaign.id.in_(newest))
    ).all()
    trials = session.execute(
        select(Trial.number, Trial.state, Trial.reason, Trial.effect).where(Trial.campaign_id.in_(newest))
    ).all()
    return tuple(_row(row) for row in (heads, *unclosed, *head, *trials))


def _row(row: Sequence[object]) -> tuple[object, ...]:
    # Effects are JSON objects: their text compares as well and may be hashed.
    return tuple(repr(item) if isinstance(item, dict) else item for item in row)
