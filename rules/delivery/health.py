"""How it goes with one target: what the page, the exporter and the notices say of it."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_ERROR = 300


@dataclass(slots=True)
class Health:
    """The count of one target since the process began; times are Unix seconds, None is never.

    `sent` and `dropped` count alerts, `failed` counts requests. `error` is why the last request failed, None while
    all is well; `refused` is the last reason for which the target would not have an alert.
    """

    name: str
    sent: int = 0
    dropped: int = 0
    failed: int = 0
    queued: int = 0
    error: str | None = None
    failed_at: float | None = None
    succeeded_at: float | None = None
    refused: str | None = None
    refused_at: float | None = None

    def success(self, now: float, alerts: int) -> None:
        """A request was answered as it should be, and brought so many alerts."""
        self.sent += alerts
        self.error = None
        self.succeeded_at = now

    def failure(self, now: float, reason: str) -> None:
        """A request failed."""
        self.failed += 1
        self.error = reason[:LONGEST_ERROR]
        self.failed_at = now

    def refusal(self, now: float, reason: str, alerts: int = 1) -> None:
        """The target would not have these alerts, and will not have them later either."""
        self.dropped += alerts
        self.refused = reason[:LONGEST_ERROR]
        self.refused_at = now
