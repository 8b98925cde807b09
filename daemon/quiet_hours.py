"""Times of day: when a campaign begins by itself, and when nothing is tried."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_CLOCK = re.compile(r"^([01]?\d|2[0-3]):([0-5]\d)$")
DAY_MINUTES = 24 * 60


def minute_of_day(text: str) -> int:
    """Minutes since midnight of `HH:MM`; raises ValueError for anything else."""
    match = _CLOCK.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no time of day: write HH:MM, for example 22:00")
    return int(match[1]) * 60 + int(match[2])


def local_minute(now: float) -> int:
    """The minute of the day, in the host's time zone, of a Unix time."""
    there = datetime.fromtimestamp(now).astimezone()
    return there.hour * 60 + there.minute


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A daily span in the host's time zone, `start` included and `end` not; it may cross midnight."""

    start: int
    end: int

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Read `HH:MM-HH:MM`; raises ValueError for anything else."""
        start, dash, end = text.partition("-")
        if not dash:
            raise ValueError(f"{text!r} is no span of hours: write HH:MM-HH:MM, for example 08:00-20:00")
        span = cls(minute_of_day(start), minute_of_day(end))
        if span.start == span.end:
            raise ValueError(f"{text!r} is empty: the two times must differ")
        return span

    def holds(self, minute: int) -> bool:
        """Whether the minute of the day is inside."""
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def __str__(self) -> str:
        return "-".join(f"{m // 60:02d}:{m % 60:02d}" for m in (self.start, self.end))
