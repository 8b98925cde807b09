"""What goes into an outer loop's mind, and what comes out: one command at a time, each answered by what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from change.engine import EngineState, Values
from change.restart.order import RestartResult
from change.server import Settings
from tuner.messages import Decided, Decision, Observation

OuterPhase = Literal["check", "hot", "screen", "alternate", "probation", "return", "ended"]
ColdTrialState = Literal["proposed", "serving", "promoted", "rejected", "inconclusive", "aborted", "invalid"]


@dataclass(frozen=True, slots=True)
class Check:
    """Ask whether `settings` could start at all; nothing is stopped."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Checked:
    """Why they could not, empty if they could."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart the engine with `settings`, in the maintenance window; `base` is the one that a canary is beside."""

    settings: Settings
    kind: Literal["trial", "promotion", "rollback"]
    trial: int | None
    base: bool = False


@dataclass(frozen=True, slots=True)
class Restarted:
    """What came of it, and the engine that serves now (None if nobody could say)."""

    result: RestartResult
    state: EngineState | None


@dataclass(frozen=True, slots=True)
class Hold:
    """Put hot values in force with no lease; `stands` if they are to come back after any later restart."""

    values: Values
    stands: bool
    base: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """What the engine holds now; `reason` says why it would not take the values."""

    state: EngineState | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TuneHot:
    """Run one campaign over the hot knobs on what serves now."""

    trial: int | None


@dataclass(frozen=True, slots=True)
class TunedHot:
    """How it ended, and the hot values that serve after it; `state` is None where the engine is out of reach."""

    report: Mapping[str, Any]
    state: EngineState | None


@dataclass(frozen=True, slots=True)
class Measure:
    """Observe what serves once a second; the mind asks for something else when it has seen enough."""

    trial: int | None


@dataclass(frozen=True, slots=True)
class Await:
    """Look again in a second: the maintenance window is closed."""


@dataclass(frozen=True, slots=True)
class Agree:
    """Have a trial's promotion agreed to, by a person where one is asked; observe what serves until then."""

    trial: int
    settings: Settings


@dataclass(frozen=True, slots=True)
class Agreed:
    """It may be promoted."""


@dataclass(frozen=True, slots=True)
class Both:
    """A canary and the engine beside it, observed at the same time: what answers `Measure` of a canary's campaign."""

    canary: Observation
    base: Observation


OuterCommand = Check | Restart | Hold | TuneHot | Measure | Await | Agree
Seen = Checked | Restarted | Held | TunedHot | Observation | Agreed | Both


@dataclass(frozen=True, slots=True)
class ColdTrialChanged:
    """A cold trial's row as it is now."""

    number: int
    source: str
    settings: Settings
    effective: Settings | None
    state: ColdTrialState
    reason: str | None
    started: float | None
    ended: float | None
    effect: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class StartSeen:
    """One start of the engine, for the memory of what starts and what does not."""

    engine_version: str
    settings: Settings
    effective: Settings
    outcome: Literal["served", "failed"]
    phase: str
    reason: str


@dataclass(frozen=True, slots=True)
class OuterEnded:
    """The outer loop is over."""

    decision: Decision
    report: Mapping[str, Any]


OuterEvent = ColdTrialChanged | StartSeen | Decided | OuterEnded
