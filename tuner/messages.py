"""What goes into a campaign's mind each tick, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from change.engine import EngineState, RequestPage, Values

PairPhase = Literal["calibrate", "race", "confirm"]
Phase = Literal["look", "calibrate", "race", "confirm", "probation", "ended"]
TrialState = Literal[
    "proposed", "racing", "confirming", "promoted", "rejected", "inconclusive", "aborted", "invalid"
]
Decision = Literal["promoted", "kept", "inconclusive", "too_thin", "aborted", "superseded"]


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the engine; None is unknown. `errors` counts 5xx answers since the last look."""

    state: EngineState | None
    page: RequestPage | None
    running: float | None = None
    waiting: float | None = None
    temperature: float | None = None
    watts: float | None = None
    npus: int | None = None
    errors: float = 0.0
    alert: str | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """Put `values` in force: a trial's with a lease, the incumbent's (trial None) without."""

    trial: int | None
    values: Values
    lease_seconds: float | None


@dataclass(frozen=True, slots=True)
class Renew:
    """Keep the trial in force for another lease."""

    values: Values
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class Promote:
    """Make a trial's values the engine's own: journaled, no lease, verified, kept over restarts."""

    trial: int
    values: Values


@dataclass(frozen=True, slots=True)
class Retract:
    """Take a promotion back: the values that served before it."""

    values: Values
    reason: str


Command = Switch | Renew | Promote | Retract


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """The campaign entered a phase."""

    phase: Phase
    fingerprint: Mapping[str, float]
    calibration: Mapping[str, float]
    objective: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrialChanged:
    """A trial's row as it is now."""

    number: int
    source: str
    values: Values
    effective: Values | None
    state: TrialState
    reason: str | None
    started: float | None
    ended: float | None
    effect: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class WindowClosed:
    """A window and its figures."""

    block: int
    position: int
    trial: int | None
    epoch: int
    applied: float
    start: float
    end: float
    valid: bool
    reason: str | None
    metrics: Mapping[str, float]
    covariates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PairScored:
    """A pair and its gains on the log scale; trial 0 is the incumbent against itself."""

    block: int
    trial: int
    phase: PairPhase
    gain: float
    adjusted: float
    others: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision with the figures it saw."""

    kind: str
    text: str
    trial: int | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """The campaign is over."""

    decision: Decision
    report: Mapping[str, Any]


Event = PhaseChanged | TrialChanged | WindowClosed | PairScored | Decided | Ended
