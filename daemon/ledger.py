"""Writes a campaign's events to the store; what cannot be written waits and is tried again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from change.choices import Options, numbered, plain_part, worded
from change.engine import EngineState, Values
from change.server import Settings
from store import Store, StoreError
from store.models import Campaign, ColdStart, Decision, Pair, Trial, Window
from tuner.messages import Decided, Ended, Event, PairScored, PhaseChanged, TrialChanged, WindowClosed
from tuner.outer.messages import ColdTrialChanged, OuterEnded, OuterEvent, StartSeen
from tuner.outer.settings import OuterSettings
from tuner.settings import Slo, TuneSettings
from tuner.workload import SIMILAR, distance

MOST_PAST = 3
COLD_TRIAL = "cold_trial"
"""The setting that names the candidate of a cold campaign inside which a hot one ran."""
NO_SETTINGS: Settings = MappingProxyType({})
KEPT_EVENTS = 2000
"""Events that may wait for the store; a campaign that cannot be recorded beyond that is stopped."""


class Ledger:
    """The store's side of one campaign."""

    def __init__(
        self, store: Store, engine: str, parent: int | None = None, cold_trial: int | None = None
    ) -> None:
        """`parent` is the cold campaign that this one runs inside, if any, `cold_trial` the candidate that serves."""
        self._store = store
        self._engine = engine
        self._parent = parent
        self._cold_trial = cold_trial
        self._waiting: list[tuple[float, Event | OuterEvent]] = []
        self._options: Options = {}
        self.campaign_id: int | None = None

    def open(
        self,
        state: EngineState,
        now: float,
        settings: TuneSettings,
        slo: Slo,
        outer: OuterSettings | None = None,
        cold: Settings = NO_SETTINGS,
    ) -> int:
        """Begin the row of a campaign on an engine as it is now, of the cold lane with `outer`; raises `StoreError`.

        `cold` are the start-up settings that serve.
        """
        self._options = state.options
        campaign = Campaign(
            engine=self._engine,
            lane="hot" if outer is None else "cold",
            parent=self._parent,
            boot_id=state.boot_id,
            started=now,
            phase="look",
            objective={"name": settings.objective.name, "quantile": settings.objective.quantile},
            settings={**asdict(settings), "slo": asdict(slo)}
            | ({} if outer is None else {"outer": asdict(outer), "cold": dict(cold)})
            | ({} if self._cold_trial is None else {COLD_TRIAL: self._cold_trial}),
            incumbent=worded(state.values, state.options),
            fingerprint={},
            calibration={},
        )
        with self._store.session() as session:
            session.add(campaign)
        self.campaign_id = campaign.id
        return campaign.id

    def write(self, now: float, events: Sequence[Event | OuterEvent]) -> str | None:
        """Store events in order; returns why it could not be done, in which case they are kept for the next call."""
        self._waiting.extend((now, event) for event in events)
        if not self._waiting:
            return None
        try:
            with self._store.session() as session:
                for time, event in self._waiting:
                    self._put(session, time, event)
        except StoreError as error:
            return str(error)
        self._waiting.clear()
        return None

    @property
    def unwritten(self) -> bool:
        """Whether something waits for the store."""
        return bool(self._waiting)

    @property
    def overflowing(self) -> bool:
        """Whether too much waits for the store."""
        return len(self._waiting) > KEPT_EVENTS

    def past_winners(self, fingerprint: Mapping[str, float]) -> list[dict[str, float]]:
        """Winners of this engine's earlier campaigns whose workload was like this one, nearest first.

        One with a text that is no choice any more is left out, and one found under start-up settings that were being
        tried: they are not what serves now.
        """
        with self._store.reading() as session:
            own = select(Campaign).where(
                Campaign.engine == self._engine, Campaign.decision == "promoted", Campaign.lane == "hot"
            )
            rows = session.scalars(own).all()
            near = sorted(
                (apart, row.id, dict(row.report["winner"]))
                for row in rows
                if row.report
                and COLD_TRIAL not in row.settings
                and row.report.get("winner")
                and (apart := distance(row.fingerprint, fingerprint)) < SIMILAR
            )
        known = (numbered(winner, self._options) for _, _, winner in near[:MOST_PAST])
        return [winner for winner in known if winner is not None]

    def _put(self, session: Session, now: float, event: Event | OuterEvent) -> None:
        assert self.campaign_id is not None, "the campaign's row is not open"
        match event:
            case PhaseChanged():
                campaign = session.get_one(Campaign, self.campaign_id)
                campaign.phase = event.phase
                campaign.fingerprint = dict(event.fingerprint)
                campaign.calibration = dict(event.calibration)
                campaign.objective = {**campaign.objective, **event.objective}
            case TrialChanged() | ColdTrialChanged():
                self._put_trial(session, event)
            case StartSeen():
                start = ColdStart(
                    engine=self._engine, campaign_id=self.campaign_id, time=now, **_plain(event)
                )
                session.add(start)
            case WindowClosed():
                session.add(Window(campaign_id=self.campaign_id, **_plain(event)))
            case PairScored():
                session.add(Pair(campaign_id=self.campaign_id, **_plain(event)))
            case Decided():
                session.add(
                    Decision(
                        campaign_id=self.campaign_id,
                        trial=event.trial,
                        time=now,
                        kind=event.kind,
                        text=event.text,
                        figures=dict(event.figures),
                    )
                )
            case Ended() | OuterEnded():
                campaign = session.get_one(Campaign, self.campaign_id)
                campaign.decision = event.decision
                campaign.ended = now
                campaign.report = dict(event.report)
                if isinstance(event, OuterEnded):
                    campaign.phase = "ended"

    def _put_trial(self, session: Session, event: TrialChanged | ColdTrialChanged) -> None:
        query = select(Trial).where(Trial.campaign_id == self.campaign_id, Trial.number == event.number)
        trial = session.scalars(query).one_or_none()
        if trial is None:
            trial = Trial(campaign_id=self.campaign_id, number=event.number)
            session.add(trial)
        for name, value in _plain(event).items():
            setattr(trial, "values" if name == "settings" else name, value)
        if isinstance(event, TrialChanged):
            trial.values = worded(event.values, self._options)
            if event.effective is not None:
                trial.effective = worded(event.effective, self._options)


def unproven_incumbent(store: Store, campaign_id: int) -> Values | None:
    """What served before a campaign that did not end as promoted, of the engine's own knobs; None if it did.

    One with restarts that has ended left what it was to put back. Raises `StoreError`.
    """
    with store.reading() as session:
        campaign = session.get(Campaign, campaign_id)
        if campaign is None or campaign.decision == "promoted":
            return None
        if campaign.lane == "cold" and campaign.ended is not None:
            return None
        return plain_part(campaign.incumbent)


def abandon_unfinished(store: Store, engine: str, now: float, keep: int | None) -> int:
    """End campaigns and trials that a dead process left running, but not `keep`; returns how many campaigns.

    Raises `StoreError`.
    """
    reason = "the process that ran it ended"
    with store.session() as session:
        left = session.scalars(
            select(Campaign).where(
                Campaign.engine == engine,
                Campaign.ended.is_(None),
                Campaign.id != (-1 if keep is None else keep),
            )
        ).all()
        for campaign in left:
            campaign.phase, campaign.decision, campaign.ended = "ended", "aborted", now
            for trial in campaign.trials:
                if trial.ended is None:
                    trial.state, trial.reason, trial.ended = "aborted", reason, now
            session.add(
                Decision(campaign_id=campaign.id, time=now, kind="end", text=f"aborted: {reason}", figures={})
            )
        return len(left)


def _plain(event: WindowClosed | PairScored | TrialChanged | ColdTrialChanged | StartSeen) -> dict[str, Any]:
    """An event's fields as JSON columns take them."""
    fields = {name: getattr(event, name) for name in event.__dataclass_fields__}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in fields.items()}
