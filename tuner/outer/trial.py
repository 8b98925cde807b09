"""One cold candidate as an outer loop knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from change.engine import Values
from change.server import Settings
from tuner.outer.messages import ColdTrialChanged, ColdTrialState
from tuner.outer.proposer import ColdProposal


@dataclass(slots=True)
class ColdTrial:
    """A candidate's start-up settings, the hot values it serves with, and what became of it."""

    number: int
    proposal: ColdProposal
    hot: dict[str, float]
    state: ColdTrialState = "proposed"
    effective: Settings | None = None
    reason: str | None = None
    started: float | None = None
    ended: float | None = None
    effect: Mapping[str, Any] | None = None
    hot_decision: str | None = None
    """How the hot campaign inside it ended, None if there was none."""

    @property
    def settings(self) -> Settings:
        """The whole start-up settings asked for."""
        return self.proposal.settings

    def close(self, now: float, state: ColdTrialState, reason: str) -> None:
        """End it."""
        self.state, self.reason, self.ended = state, reason, now

    def row(self) -> ColdTrialChanged:
        """The trial as it is stored."""
        return ColdTrialChanged(
            self.number,
            self.proposal.source,
            self.settings,
            self.effective,
            self.state,
            self.reason or self.proposal.note,
            self.started,
            self.ended,
            self.effect,
        )

    def document(self) -> dict[str, Any]:
        """The trial in a report."""
        return {
            "number": self.number,
            "source": self.proposal.source,
            "requested": dict(self.settings),
            "effective": None if self.effective is None else dict(self.effective),
            "hot": dict(self.hot),
            "state": self.state,
            "reason": self.reason or self.proposal.note,
            "effect": self.effect,
            "hot_decision": self.hot_decision,
        }


def below(values: Values, ceilings: Values) -> dict[str, float]:
    """Hot values as they can be held under these ceilings."""
    return {name: min(value, ceilings.get(name, value)) for name, value in values.items()}
