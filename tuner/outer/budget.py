"""What an outer loop has spent: restarts, minutes of lost capacity, and what is left of both."""

from __future__ import annotations

from dataclasses import dataclass

from change.restart.order import RestartResult
from tuner.outer.settings import OuterSettings

TO_FINISH = 2
"""Restarts that an alternation takes after the last candidate was screened: the incumbent, and the finalist again."""


@dataclass(slots=True)
class Spent:
    """The budget's side of one outer loop; a way back is never refused by it, and counted all the same."""

    allowed: OuterSettings
    restarts: int = 0
    lost_seconds: float = 0.0
    own_seconds: float = 0.0
    longest_seconds: float = 0.0

    def take(self, result: RestartResult) -> None:
        """Count one restart's cost; one that stopped nothing costs nothing."""
        if result.outcome == "refused" or result.down_seconds <= 0:
            return
        self.restarts += 1
        self.lost_seconds += result.down_seconds
        self.own_seconds += result.own_seconds
        self.longest_seconds = max(self.longest_seconds, result.down_seconds)

    @property
    def expected_seconds(self) -> float:
        """What the next restart is taken to cost: the dearest so far, before the first its share of what is allowed."""
        if self.restarts:
            return self.longest_seconds
        return self.allowed.lost_minutes * 60.0 / max(self.allowed.restarts, 1)

    def short_of(self, restarts: int) -> str | None:
        """Why so many more restarts cannot be afforded, or None; the next are taken to cost what the dearest did."""
        left = self.allowed.restarts - self.restarts
        if restarts > left:
            return f"{restarts} more restarts are needed and {left} are left of {self.allowed.restarts}"
        minutes = (self.lost_seconds + restarts * self.longest_seconds) / 60.0
        if minutes > self.allowed.lost_minutes:
            return f"{minutes:.0f} minutes of lost capacity would be over the {self.allowed.lost_minutes:.0f} allowed"
        return None
