"""What the pages and the commands read: functions over an open session (`Store.reading`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from store.models import Campaign, Decision, JournalEntry, Pair, Promoted, Trial, Window


@dataclass(frozen=True, slots=True)
class WholeCampaign:
    """One campaign with everything that was measured and decided in it, each list in order of time."""

    campaign: Campaign
    trials: Sequence[Trial]
    windows: Sequence[Window]
    pairs: Sequence[Pair]
    decisions: Sequence[Decision]


def campaigns(session: Session, engine: str | None = None, limit: int = 50) -> Sequence[Campaign]:
    """List campaigns with their trials, newest first, of one engine or of all."""
    query = select(Campaign).order_by(Campaign.id.desc()).limit(limit).options(selectinload(Campaign.trials))
    if engine is not None:
        query = query.where(Campaign.engine == engine)
    return session.scalars(query).all()


def newest_campaign(session: Session, engine: str | None = None) -> Campaign | None:
    """Return the campaign begun last, with its trials, or None before the first; not one inside another."""
    query = select(Campaign).where(Campaign.parent.is_(None)).order_by(Campaign.id.desc()).limit(1)
    if engine is not None:
        query = query.where(Campaign.engine == engine)
    return session.scalars(query.options(selectinload(Campaign.trials))).one_or_none()


def inner_campaigns(session: Session, campaign_id: int) -> Sequence[Campaign]:
    """List the hot campaigns that ran inside a cold one, oldest first."""
    return session.scalars(select(Campaign).where(Campaign.parent == campaign_id).order_by(Campaign.id)).all()


def whole_campaign(session: Session, campaign_id: int) -> WholeCampaign | None:
    """Return one campaign with its trials, windows, pairs and decisions, or None if there is none."""
    campaign = session.get(Campaign, campaign_id, options=[selectinload(Campaign.trials)])
    if campaign is None:
        return None
    return WholeCampaign(
        campaign,
        campaign.trials,
        windows(session, campaign_id),
        pairs(session, campaign_id),
        decisions(session, campaign_id),
    )


def trials(session: Session, campaign_id: int) -> Sequence[Trial]:
    """List a campaign's trials by number."""
    return session.scalars(select(Trial).where(Trial.campaign_id == campaign_id).order_by(Trial.number)).all()


def windows(session: Session, campaign_id: int) -> Sequence[Window]:
    """List a campaign's windows by block and place in it."""
    query = select(Window).where(Window.campaign_id == campaign_id)
    return session.scalars(query.order_by(Window.block, Window.position, Window.id)).all()


def pairs(session: Session, campaign_id: int, trial: int | None = None) -> Sequence[Pair]:
    """List a campaign's pairs by block, of one trial number or of all."""
    query = select(Pair).where(Pair.campaign_id == campaign_id)
    if trial is not None:
        query = query.where(Pair.trial == trial)
    return session.scalars(query.order_by(Pair.block, Pair.id)).all()


def decisions(session: Session, campaign_id: int) -> Sequence[Decision]:
    """List a campaign's decisions by time."""
    query = select(Decision).where(Decision.campaign_id == campaign_id)
    return session.scalars(query.order_by(Decision.time, Decision.id)).all()


def journal(
    session: Session, engine: str | None = None, limit: int = 50, before: int | None = None
) -> Sequence[JournalEntry]:
    """List journal entries, newest first, of one engine or of all; `before` is an id to page on from."""
    query = select(JournalEntry).order_by(JournalEntry.id.desc()).limit(limit)
    if engine is not None:
        query = query.where(JournalEntry.engine == engine)
    if before is not None:
        query = query.where(JournalEntry.id < before)
    return session.scalars(query).all()


def promoted(session: Session, engine: str) -> Promoted | None:
    """Return what serves by promotion on an engine, or None."""
    return session.get(Promoted, engine)
