"""What goes into the walks of playbooks, and what comes out.

Each command that wants an answer carries `run_id` and `call`, a number that the run gives out once; its `Result`
carries them back. A result that nobody waits for any more changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from collectors.sample import Labels
from rules.actions import Action, CaptureKind, Outcome, Plan
from rules.readings import Readings

Mode = Literal["observe", "advise", "act"]
Source = Literal["rule", "alertmanager", "manual"]
RunState = Literal[
    "queued",
    "waiting_approval",
    "running",
    "verifying",
    "succeeded",
    "rolled_back",
    "failed",
    "inconclusive",
    "skipped",
    "abandoned",
]
ENDED: frozenset[RunState] = frozenset(
    {"succeeded", "rolled_back", "failed", "inconclusive", "skipped", "abandoned"}
)
NoteKind = Literal["state", "check", "capture", "diagnose", "plan", "approval", "act", "verify", "undo"]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a playbook should walk. `window_seconds` is the `for` of the alert's rule; `refusal` says why it must not
    (silenced, inhibited), and then the run is only written down."""

    playbook: str
    source: Source
    labels: Labels = ()
    fingerprint: str = ""
    alert_started: float = 0.0
    window_seconds: float = 0.0
    dry_run: bool = False
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a command: a plan for `PlanAct`, an outcome for the others, or why it was refused (nothing done)."""

    run_id: int
    call: int
    plan: Plan | None = None
    outcome: Outcome | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said to the question `call` of a run (None: to whatever it asks now)."""

    run_id: int
    yes: bool
    by: str
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the world. `stopped` is why nothing may be changed now (pause, kill-switch), None if it may.

    `held` says which other run is changing something; what a person has approved waits for that.
    """

    readings: Readings
    mode: Mode
    stopped: str | None = None
    results: Sequence[Result] = ()
    answers: Sequence[Answer] = ()
    held: str | None = None


@dataclass(frozen=True, slots=True)
class PlanAct:
    """Look what an action would do here, and change nothing."""

    run_id: int
    call: int
    step: str
    action: Action


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Ask a person whether the plan may be carried out; the answer comes as an `Answer`."""

    run_id: int
    call: int
    step: str
    action: Action
    plan: Plan


@dataclass(frozen=True, slots=True)
class IntendAct:
    """Write the act and its undo down. The runner does this itself and never hands it out: result is the act's id."""

    run_id: int
    call: int
    step: str
    action: Action
    plan: Plan


@dataclass(frozen=True, slots=True)
class DoAct:
    """Carry the plan out; it stands in the store as act `act_id`, with its undo."""

    run_id: int
    call: int
    step: str
    act_id: int
    action: Action
    plan: Plan


@dataclass(frozen=True, slots=True)
class UndoAct:
    """Put back what stood before act `act_id`. After a `DoAct` of the same run, never before it or beside it."""

    run_id: int
    call: int
    act_id: int
    action: Action
    undo: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TakeCapture:
    """Record evidence for at most `seconds`."""

    run_id: int
    call: int
    step: str
    kind: CaptureKind
    seconds: float


@dataclass(frozen=True, slots=True)
class EndProfile:
    """End a profile that is being recorded for a run: it gives way to one that cannot wait. Nothing answers this."""

    run_id: int


@dataclass(frozen=True, slots=True)
class Note:
    """One line of a run's audit, with the figures it saw: written down already, handed out to be told."""

    run_id: int
    time: float
    step: str | None
    kind: NoteKind
    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunChanged:
    """A run entered a state."""

    run_id: int
    time: float
    playbook: str
    target: str
    state: RunState
    reason: str | None = None
    cause: str | None = None


Command = PlanAct | AskApproval | IntendAct | DoAct | UndoAct | TakeCapture | EndProfile | Note | RunChanged
