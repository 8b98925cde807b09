"""The shapes of playbooks and their runs in the JSON API. Times are Unix seconds; null is unknown."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from web.shapes import Open

STATES = (
    "queued, waiting_approval, running, verifying, succeeded, rolled_back, failed, inconclusive, skipped, "
    "abandoned"
)


class Playbook(Open):
    """A troubleshooting procedure."""

    name: str
    title: str
    description: str
    guide: str = ""
    target: str = Field(description="What a cool-down counts for: engine, npu, host")
    cooldown_seconds: float
    variables: dict[str, str] = Field(default={})
    changes: bool = Field(description="Whether one of its steps may change something")
    steps: list[dict[str, Any]] = Field(default=[])


class RunOrder(BaseModel):
    """Walk a playbook now."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(default=False, description="Look and plan only; it consumes the cool-down too")
    labels: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")], Annotated[str, Field(max_length=500)]
    ] = Field(default={}, max_length=32, description="The variables, as an alert's labels would be")


class Begun(Open):
    """A run that was ordered."""

    run: int
    state: str = Field(description=STATES)
    reason: str | None = None
    dry_run: bool


class Run(Open):
    """One walk of a playbook."""

    model_config = ConfigDict(extra="allow", from_attributes=True)

    id: int
    playbook: str
    source: str = Field(description="rule, alertmanager, manual")
    fingerprint: str = ""
    alert_started: float
    labels: dict[str, Any] = Field(default={})
    target: str
    dry_run: bool
    state: str = Field(description=STATES)
    step: str | None = Field(default=None, description="Where it stands")
    reason: str | None = None
    cause: str | None = Field(default=None, description="What a diagnosis named")
    queued: float
    started: float | None = None
    ended: float | None = None


class Event(Open):
    """One line of a run's audit, with the figures it saw."""

    model_config = ConfigDict(extra="allow", from_attributes=True)

    time: float
    step: str | None = None
    kind: str = Field(description="state, check, capture, diagnose, plan, approval, act, verify, undo")
    text: str
    figures: dict[str, Any] = Field(default={})


class Act(Open):
    """An action of a run, with its undo as it was written before it was made."""

    model_config = ConfigDict(extra="allow", from_attributes=True)

    id: int
    step: str
    action: dict[str, Any] = Field(description="kind, arguments, timeout_seconds, keep")
    plan: dict[str, Any] = Field(description="text, blast, reversible, undo")
    state: str = Field(description="intended, done, kept, failed, refused, undone")
    intended: float
    ended: float | None = None
    outcome: dict[str, Any] | None = Field(default=None, description="ok, text, figures")


class RunDetail(Run):
    """One walk with its audit and its acts, oldest first."""

    events: list[Event] = Field(default=[])
    acts: list[Act] = Field(default=[])
