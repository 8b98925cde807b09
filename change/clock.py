"""The clock a change lives by: real in the daemon, virtual in the simulator."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time and lets it pass; handed in, so that a restart of minutes is tried in milliseconds."""

    def now(self) -> float:
        """Return Unix seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...
