"""The shapes of alerts and rules in the JSON API. Times are Unix seconds, durations seconds; null is unknown."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from web.shapes import Open


class Alert(Open):
    """One alert as it stands; one that is resolved is shown for a quarter of an hour."""

    name: str = Field(description="Of the rule")
    severity: str = Field(description="info, warning, critical")
    state: Literal["pending", "firing", "resolved"]
    labels: dict[str, str] = Field(default={})
    annotations: dict[str, str] = Field(default={})
    value: float | None = Field(default=None, description="Of the rule's expression; null: no number")
    active_at: float | None = Field(default=None, description="Since when the condition holds")
    fired_at: float | None = None
    resolved_at: float | None = None
    keep_firing_since: float | None = Field(
        default=None, description="Since when it fires without its condition"
    )
    playbook: str | None = None
    group: str | None = None
    fingerprint: str | None = Field(default=None, description="As Alertmanager has it")


class Rule(Open):
    """One rule and how its last evaluation went."""

    name: str
    expr: str
    for_seconds: float = 0.0
    keep_firing_for_seconds: float = 0.0
    severity: str | None = None
    playbook: str | None = None
    description: str | None = None
    source: str | None = Field(default=None, description="File and line it stands at")
    state: Literal["inactive", "pending", "firing", "resolved"] = Field(
        default="inactive", description="Of its alerts the worst"
    )
    health: Literal["ok", "err", "unknown"] = Field(
        default="unknown", description="unknown: not evaluated yet"
    )
    last_error: str | None = None
    last_evaluation: float | None = None
    failures: int = 0


class Group(Open):
    """Rules that are evaluated together."""

    name: str
    interval_seconds: float
    last_evaluation: float | None = None
    duration_seconds: float | None = None
    missed: int = 0
    rules: list[Rule] = Field(default=[])


class Alerts(Open):
    """Every alert, the worst first, and every rule."""

    enabled: bool = Field(default=True, description="Whether rules are evaluated at all")
    alerts: list[Alert] = Field(default=[])
    groups: list[Group] = Field(default=[])
    trouble: str | None = Field(default=None, description="Why alerts cannot be stored now")
