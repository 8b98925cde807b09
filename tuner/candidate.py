"""One trial as a campaign knows it: its values, its state, and what its windows showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.adjust import Adjustment, Contrast
from tuner.messages import TrialChanged, TrialState
from tuner.proposer import Proposal
from tuner.switchback import ScoredWindow

ENDED: frozenset[TrialState] = frozenset({"promoted", "rejected", "inconclusive", "aborted", "invalid"})


@dataclass(slots=True)
class Series:
    """Pairs of one phase with the windows behind them, in the order they were scored."""

    contrasts: list[Contrast] = field(default_factory=list)
    mine: list[ScoredWindow] = field(default_factory=list)
    incumbent: list[ScoredWindow] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.contrasts)

    def first(self, count: int) -> Series:
        """The first `count` pairs."""
        return Series(self.contrasts[:count], self.mine[:count], self.incumbent[:count])

    def gains(self, adjustment: Adjustment) -> list[float]:
        """Adjusted gain of each pair that knows the metric."""
        return [adjustment.gain(pair) for pair in self.contrasts if adjustment.metric in pair.gains]


@dataclass(slots=True)
class Candidate:
    """One trial."""

    number: int
    proposal: Proposal
    started: float
    state: TrialState = "racing"
    reason: str | None = None
    effective: Mapping[str, float] | None = None
    ended: float | None = None
    effect: Mapping[str, Any] | None = None
    race: Series = field(default_factory=Series)
    confirmation: Series = field(default_factory=Series)

    @property
    def values(self) -> dict[str, float]:
        """The config that is tried."""
        return self.proposal.values

    @property
    def done(self) -> bool:
        """Whether it runs no more."""
        return self.state in ENDED

    def row(self) -> TrialChanged:
        """The trial as it is stored."""
        return TrialChanged(
            self.number,
            self.proposal.source,
            self.values,
            self.effective,
            self.state,
            self.reason or self.proposal.note,
            self.started,
            self.ended,
            self.effect,
        )
