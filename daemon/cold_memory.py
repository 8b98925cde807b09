"""What the store remembers of an engine's starts and of the cold campaigns before this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from sqlalchemy import select

from change.server import Setting
from store import Store
from store.models import Campaign, ColdStart
from tuner.outer.alternation import USUAL_SD
from tuner.outer.memory import Start, StartMemory

MOST_PAST = 2


@dataclass(frozen=True, slots=True)
class ColdPast:
    """Starts of this engine in this version, winners of earlier cold campaigns, and how much its restarts differ."""

    memory: StartMemory
    winners: Sequence[dict[str, Setting]]
    usual_sd: float


def cold_past(store: Store, engine: str, engine_version: str) -> ColdPast:
    """Read it; raises `StoreError`. A start of another version says nothing of this one."""
    with store.reading() as session:
        starts = session.scalars(
            select(ColdStart)
            .where(ColdStart.engine == engine, ColdStart.engine_version == engine_version)
            .order_by(ColdStart.id)
        ).all()
        reports = [
            dict(campaign.report["cold"])
            for campaign in session.scalars(
                select(Campaign)
                .where(Campaign.engine == engine, Campaign.lane == "cold", Campaign.report.is_not(None))
                .order_by(Campaign.id.desc())
            )
            if campaign.report and campaign.report.get("cold")
        ]
        memory = StartMemory(
            [
                Start(
                    row.settings,
                    row.effective,
                    "served" if row.outcome == "served" else "failed",
                    row.reason,
                )
                for row in starts
            ]
        )
    winners = [dict(report["winner"]) for report in reports if report.get("winner")]
    seen = [
        float(trial["effect"]["between_restart_sd"])
        for report in reports
        for trial in report["trials"]
        if trial.get("effect") and trial["effect"].get("alternations", 0) >= 2
    ]
    return ColdPast(memory, winners[:MOST_PAST], fmean(seen) if seen else USUAL_SD)
