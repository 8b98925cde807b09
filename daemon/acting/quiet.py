"""When a restart that can wait is made: in the maintenance window, else in the hour that was the quietest so far."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from collectors.history import History
from daemon.sections.restart import RestartSection

LOAD = "trimtab_engine_requests_running"
HOUR_SECONDS = 3600.0
DAY_HOURS = 24
LEAST_HOURS = 20
"""Of the last 24 that must be known before one of them can be called the quietest."""
LOOK_AHEAD_SECONDS = 60.0


class Unknown(Exception):
    """Nobody can say when it is quiet; the text says why and what to do."""


class QuietTimes:
    """Tells whether a time is quiet, and when the next quiet time begins; times are Unix seconds."""

    def __init__(self, restart: RestartSection, history: History) -> None:
        self._restart = restart
        self._history = history

    def name(self, now: float) -> str:
        """The quiet time in words; raises `Unknown`."""
        if self._restart.window:
            return f"the maintenance window {', '.join(self._restart.window)}"
        hour = self.quietest_hour(now)
        return f"the quietest hour of the last day, {hour:02d}:00-{(hour + 1) % DAY_HOURS:02d}:00"

    def next(self, now: float) -> float:
        """Return when the next quiet time begins, `now` where it is quiet already; raises `Unknown`."""
        quiet = self._test(now)
        at = now
        while at < now + DAY_HOURS * HOUR_SECONDS + LOOK_AHEAD_SECONDS:
            if quiet(at):
                return at
            at += LOOK_AHEAD_SECONDS - at % LOOK_AHEAD_SECONDS
        raise Unknown("no quiet time comes within a day: see engine.restart.window")

    def began(self, now: float) -> float | None:
        """Return when the quiet time of now began, to the minute; None if it is not quiet. Raises `Unknown`."""
        quiet = self._test(now)
        if not quiet(now):
            return None
        at = now - now % LOOK_AHEAD_SECONDS
        while quiet(at - LOOK_AHEAD_SECONDS) and at > now - DAY_HOURS * HOUR_SECONDS:
            at -= LOOK_AHEAD_SECONDS
        return at

    def quietest_hour(self, now: float) -> int:
        """The hour of the day (local) with the fewest running requests in the last 24 hours; raises `Unknown`."""
        found: list[tuple[float, int]] = []
        for back in range(DAY_HOURS):
            end = now - back * HOUR_SECONDS
            values = [value for _, value in self._history.range(LOAD, end - HOUR_SECONDS, end)]
            if values:
                middle = datetime.fromtimestamp(end - HOUR_SECONDS / 2).astimezone()
                found.append((sum(values) / len(values), middle.hour))
        if len(found) < LEAST_HOURS:
            raise Unknown(
                f"the load of only {len(found)} of the last {DAY_HOURS} hours is known, so that nobody can say which "
                "is the quietest: set engine.restart.window"
            )
        return min(found)[1]

    def _test(self, now: float) -> Callable[[float], bool]:
        if self._restart.window:
            return self._restart.open_at
        hour = self.quietest_hour(now)
        return lambda at: datetime.fromtimestamp(at).astimezone().hour == hour
