"""One kind of action of a playbook: what it would do, doing it, and taking it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rules.actions import Action, Outcome, Plan


@dataclass(frozen=True, slots=True)
class RunContext:
    """For which run an action is made: its name (`run-12`), its playbook and what it is about (`engine`, `npu 3`)."""

    run: str
    playbook: str
    target: str = "engine"

    @property
    def actor(self) -> str:
        """As the journal names it."""
        return f"{self.run} of playbook {self.playbook}"


class Deed(Protocol):
    """The hand of one kind of action. `undo` is what `plan` gave, and works after a crash of the process too."""

    @property
    def preempts(self) -> bool:
        """Whether a running trial has to end before it is made."""
        ...

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        """Look what it would do, and change nothing; raises `ActionRefused`."""
        ...

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        """Do it; raises `ActionRefused` if nothing was done."""
        ...

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        """Put back what stood before; twice is as good as once."""
        ...
