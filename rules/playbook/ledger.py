"""Where a run stands, what it has done, and what it says this time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rules.actions import Action, Outcome, Plan
from rules.playbook.messages import ENDED, Command, Note, NoteKind, RunChanged, RunState

ActState = Literal["intended", "done", "failed", "refused", "undone", "kept"]
"""Kept: a verification has held since it was done, or its step says `keep`; it stays when the walk ends."""


@dataclass(slots=True)
class StandingAct:
    """An act as it stands in the store."""

    act_id: int
    step: str
    action: Action
    plan: Plan
    state: ActState = "intended"
    ended: float | None = None
    outcome: Outcome | None = None

    @property
    def undoable(self) -> bool:
        """Whether something may have been done that can be put back."""
        return self.plan.undo is not None and self.state not in ("refused", "undone")

    @property
    def stays(self) -> bool:
        """Whether its step says `keep` and it is done, or was cut off so that nobody knows."""
        return self.action.keep and self.state in ("kept", "intended")

    @property
    def touched(self) -> bool:
        """Whether it may have changed anything, whatever became of that."""
        return self.state != "refused" and (self.plan.blast != "none" or self.plan.undo is not None)

    @property
    def lasting(self) -> bool:
        """Whether something may have been done, is not verified, and is not put back."""
        back = self.plan.undo is not None and not self.stays
        return not back and self.plan.blast != "none" and self.state in ("intended", "done", "failed")


@dataclass(slots=True)
class Ledger:
    """One run's standing. `calls` numbers its commands; `out` is what it has to say since it was last drained."""

    run_id: int
    playbook: str
    target: str
    state: RunState = "queued"
    at: str | None = None
    reason: str | None = None
    cause: str | None = None
    calls: int = 0
    started: float | None = None
    ended: float | None = None
    acts: list[StandingAct] = field(default_factory=list)
    out: list[Command] = field(default_factory=list)

    def note(self, now: float, kind: NoteKind, text: str, figures: Mapping[str, Any] | None = None) -> None:
        """Write a line of the audit."""
        self.out.append(Note(self.run_id, now, self.at, kind, text, figures or {}))

    def enter(self, now: float, state: RunState, reason: str | None = None) -> None:
        """Go into a state; an end is only entered once."""
        if self.state in ENDED or state == self.state:
            return
        self.state, self.reason = state, reason
        if state in ENDED:
            self.ended = now
        elif self.started is None and state != "queued":
            self.started = now
        self.note(now, "state", f"{state}: {reason}" if reason else state)
        self.tell(now)

    def tell(self, now: float) -> None:
        """Say in which state it is."""
        self.out.append(
            RunChanged(self.run_id, now, self.playbook, self.target, self.state, self.reason, self.cause)
        )

    def call(self) -> int:
        """A number for the next command."""
        self.calls += 1
        return self.calls

    def drain(self) -> tuple[Command, ...]:
        """What is to be said now."""
        out, self.out = tuple(self.out), []
        return out
