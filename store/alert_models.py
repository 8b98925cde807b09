"""The tables of alerts and playbooks. Times are Unix seconds; JSON columns hold plain dicts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from store.models import Base


class AlertRow(Base):
    """An alert as it stands, so that a restart of the daemon neither forgets nor fires it anew."""

    __tablename__ = "alert"

    engine: Mapped[str] = mapped_column(primary_key=True)
    rule: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    grouped: Mapped[str]  # the rule's group
    labels: Mapped[dict[str, Any]]
    annotations: Mapped[dict[str, Any]]
    state: Mapped[str]  # pending, firing, resolved
    value: Mapped[float | None]  # None: not a number
    active_at: Mapped[float]
    fired_at: Mapped[float | None]
    resolved_at: Mapped[float | None]
    keep_firing_since: Mapped[float | None]
    playbook: Mapped[str | None]
    time: Mapped[float]  # of the last evaluation


class ReceivedAlert(Base):
    """An alert that Alertmanager's webhook brought, once for each engine, fingerprint and start."""

    __tablename__ = "received_alert"
    __table_args__ = (Index("received_alert_by_time", "engine", "received"),)

    engine: Mapped[str] = mapped_column(primary_key=True)  # beside which the daemon ran that took it
    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    starts_at: Mapped[float] = mapped_column(primary_key=True)
    status: Mapped[str]  # firing, resolved
    labels: Mapped[dict[str, Any]]
    body: Mapped[
        dict[str, Any]
    ]  # the alert as it came, with fields we do not know and, under `post`, those of its post
    received: Mapped[float]


class PlaybookRun(Base):
    """One walk of a playbook."""

    __tablename__ = "playbook_run"
    __table_args__ = (
        Index("playbook_run_by_time", "engine", "queued"),
        Index("playbook_run_by_alert", "engine", "playbook", "fingerprint", "alert_started"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    engine: Mapped[str]
    playbook: Mapped[str]
    source: Mapped[str]  # rule, alertmanager, manual
    fingerprint: Mapped[str]  # of the alert; empty for a manual run
    alert_started: Mapped[float]
    labels: Mapped[dict[str, Any]]  # of the alert: the run's variables
    target: Mapped[str]  # what a cool-down counts for: engine, npu 3, host
    dry_run: Mapped[bool]
    state: Mapped[
        str
    ]  # queued, waiting_approval, running, verifying, succeeded, rolled_back, failed, inconclusive, skipped, abandoned
    step: Mapped[str | None]  # where it stands
    reason: Mapped[str | None]
    cause: Mapped[str | None]  # what a diagnose step named
    queued: Mapped[float]
    started: Mapped[float | None]
    ended: Mapped[float | None]
    memory: Mapped[
        dict[str, Any]
    ]  # what the walk must know to go on: variables, since when a condition holds


class RunEvent(Base):
    """One line of a run's audit, with the figures it saw."""

    __tablename__ = "run_event"
    __table_args__ = (Index("run_event_by_run", "run_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("playbook_run.id"))
    time: Mapped[float]
    step: Mapped[str | None]
    kind: Mapped[str]  # state, check, capture, diagnose, plan, approval, act, verify, undo
    text: Mapped[str]
    figures: Mapped[dict[str, Any]]


class RunAct(Base):
    """An action of a run with its undo, written before it is made."""

    __tablename__ = "run_act"
    __table_args__ = (Index("run_act_by_run", "run_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("playbook_run.id"))
    step: Mapped[str]
    action: Mapped[dict[str, Any]]  # kind, arguments, timeout_seconds, keep
    plan: Mapped[dict[str, Any]]  # text, blast, reversible, undo
    state: Mapped[str]  # intended, done, failed, refused, undone, kept (a verification held, or `keep`)
    intended: Mapped[float]
    ended: Mapped[float | None]
    outcome: Mapped[dict[str, Any] | None]  # ok, text, figures
