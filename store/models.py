"""The tables. Times are Unix seconds; JSON columns hold plain dicts; every figure a decision used is kept."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """Declarative base of the store."""

    type_annotation_map = {  # noqa: RUF012
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
    }


class Campaign(Base):
    """Trials under one budget and one workload."""

    __tablename__ = "campaign"
    # A forgotten campaign's id is never used again.
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    engine: Mapped[str]  # address of the engine, as configured
    boot_id: Mapped[str]
    lane: Mapped[str] = mapped_column(server_default="hot")  # hot; cold: start-up settings, in restarts
    parent: Mapped[int | None]  # the cold campaign that a hot one ran inside
    started: Mapped[float]
    ended: Mapped[float | None]
    phase: Mapped[str]  # look, calibrate, race, confirm, probation, ended
    decision: Mapped[str | None]  # promoted, kept, inconclusive, too_thin, aborted, superseded
    objective: Mapped[dict[str, Any]]  # name, unit, direction, quantile
    settings: Mapped[dict[str, Any]]  # knobs, min_effect, max_regression, minutes, slo
    incumbent: Mapped[dict[str, Any]]  # knob values that served at the start
    fingerprint: Mapped[dict[str, Any]]  # workload fingerprint
    calibration: Mapped[dict[str, Any]]  # noise, washout, window, detectable effect
    report: Mapped[dict[str, Any] | None]  # the report once ended

    trials: Mapped[list[Trial]] = relationship(back_populates="campaign", order_by="Trial.number")


class Trial(Base):
    """One candidate of a campaign."""

    __tablename__ = "trial"
    __table_args__ = (UniqueConstraint("campaign_id", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"))
    number: Mapped[int]
    source: Mapped[str]  # prior, past, sampler
    values: Mapped[dict[str, Any]]
    effective: Mapped[dict[str, Any] | None]
    state: Mapped[str]  # proposed, racing, confirming, promoted, rejected, inconclusive, aborted, invalid
    reason: Mapped[str | None]
    started: Mapped[float | None]
    ended: Mapped[float | None]
    effect: Mapped[dict[str, Any] | None]  # {median, low, high, pairs, phase}: ratio - 1, better is positive

    campaign: Mapped[Campaign] = relationship(back_populates="trials")


class Window(Base):
    """A measured interval under one config, after the washout."""

    __tablename__ = "window"
    __table_args__ = (Index("window_by_campaign", "campaign_id", "block"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"))
    block: Mapped[int]
    position: Mapped[int]  # order inside the block
    trial: Mapped[int | None]  # trial number; None is the incumbent
    epoch: Mapped[int]
    applied: Mapped[float]
    start: Mapped[float]  # end of the washout
    end: Mapped[float]
    valid: Mapped[bool]
    reason: Mapped[str | None]
    metrics: Mapped[
        dict[str, Any]
    ]  # ttft_p50_seconds, itl_p99_seconds, output_tokens_per_second, slo_share, ...
    covariates: Mapped[dict[str, Any]]  # tokens that arrived, lengths, temperature


class Pair(Base):
    """The incumbent window and one candidate's window of the same block."""

    __tablename__ = "pair"
    __table_args__ = (Index("pair_by_campaign", "campaign_id", "trial"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"))
    block: Mapped[int]
    trial: Mapped[int]
    phase: Mapped[str]  # calibrate (A/A), race, confirm
    gain: Mapped[float]  # log ratio of the objective, better is positive
    adjusted: Mapped[float]  # the same after covariates
    others: Mapped[dict[str, Any]]  # log ratio of every other metric, better is positive


class Decision(Base):
    """One decision of a campaign with the figures it saw."""

    __tablename__ = "decision"
    __table_args__ = (Index("decision_by_campaign", "campaign_id", "time"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"))
    trial: Mapped[int | None]
    time: Mapped[float]
    kind: Mapped[str]  # calibrated, dropped, confirm, promote, reject, abort, probation, end
    text: Mapped[str]
    figures: Mapped[dict[str, Any]]


class ColdStart(Base):
    """One start of an engine that a campaign asked for: what serves, what fails, and what takes no hold."""

    __tablename__ = "cold_start"
    __table_args__ = (Index("cold_start_by_engine", "engine", "engine_version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    engine: Mapped[str]  # address of the engine, as configured
    engine_version: Mapped[str]
    campaign_id: Mapped[int | None]
    time: Mapped[float]
    settings: Mapped[dict[str, Any]]  # start-up settings asked for
    effective: Mapped[dict[str, Any]]  # those in effect; empty for a start that failed
    outcome: Mapped[str]  # served, failed
    phase: Mapped[str]  # where it ended
    reason: Mapped[str]


class JournalEntry(Base):
    """The write-ahead record of one change, with its undo: intended, applied, verified, closed."""

    __tablename__ = "journal"
    __table_args__ = (Index("journal_by_engine", "engine", "state"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    engine: Mapped[str]
    boot_id: Mapped[str]  # of the engine at the time of the change; of a host change the boot of the node
    lane: Mapped[str] = mapped_column(server_default="hot")  # hot, host, cold
    kind: Mapped[str]  # trial, adaptive, promotion, reapply, manual, rollback, detach
    state: Mapped[str]  # intended, applied, verified, closed
    outcome: Mapped[
        str | None
    ]  # once closed: done (it stands), undone, recovered (brought to an end at start)
    intended: Mapped[float]
    applied: Mapped[float | None]
    verified: Mapped[float | None]
    closed: Mapped[float | None]
    actor: Mapped[str]  # campaign 3, cli, recovery
    change: Mapped[dict[str, Any]]  # knob values asked for; cold: {settings, command}; host: {knob: value}
    undo: Mapped[dict[str, Any]]  # knob values to go back to; cold: {settings, command}; host: {knob: undo}
    effective: Mapped[dict[str, Any] | None]
    reason: Mapped[str | None]
    undoes: Mapped[list[Any] | None]  # ids of the entries that a rollback takes back
    campaign_id: Mapped[int | None]  # the campaign behind a trial or a promotion


class Launch(Base):
    """What an engine started with by its flags, as seen before anybody changed it (epoch 0)."""

    __tablename__ = "launch"

    engine: Mapped[str] = mapped_column(primary_key=True)
    boot_id: Mapped[str] = mapped_column(primary_key=True)
    engine_version: Mapped[str]
    values: Mapped[dict[str, Any]]
    ceilings: Mapped[dict[str, Any]]
    time: Mapped[float]


class Promoted(Base):
    """What serves by promotion: re-applied after an engine restart whose launch values are as before."""

    __tablename__ = "promoted"

    engine: Mapped[str] = mapped_column(primary_key=True)
    launch: Mapped[dict[str, Any]]  # knob values the engine starts with by its flags
    ceilings: Mapped[dict[str, Any]]
    values: Mapped[dict[str, Any]]
    campaign_id: Mapped[int | None]
    time: Mapped[float]
