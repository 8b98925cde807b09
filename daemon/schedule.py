"""The times of day at which something is due."""

from __future__ import annotations

from collections.abc import Iterable

from daemon.quiet_hours import local_minute, minute_of_day


class Schedule:
    """Local times of day, as `02:30`; each comes once a day."""

    def __init__(self, times: Iterable[str]) -> None:
        self._minutes = {minute_of_day(time) for time in times}
        self._last: int | None = None

    def due(self, now: float) -> str | None:
        """The time that has come since the last question, or None."""
        minute = local_minute(now)
        came, self._last = minute != self._last, minute
        return f"{minute // 60:02d}:{minute % 60:02d}" if came and minute in self._minutes else None
