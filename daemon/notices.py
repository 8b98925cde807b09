"""What the operator should know now: said once when it begins, once when it is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import structlog

NEWS_SECONDS = 3600.0

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that holds: since when (Unix seconds), how bad, in words."""

    key: str
    level: Level
    text: str
    since: float


class Notices:
    """The things that hold now, by key; the log hears of each beginning and end, never of every tick."""

    def __init__(self, clock: Callable[[], float], log: Any = None) -> None:
        self._clock = clock
        self._log = log if log is not None else structlog.get_logger("trimtab")
        self._held: dict[str, Notice] = {}

    def say(self, key: str, text: str, level: Level = "warning") -> None:
        """State that something holds; the same key again only changes the words, without a log line."""
        before = self._held.get(key)
        if before is None:
            getattr(self._log, level)(text, notice=key)
            self._held[key] = Notice(key, level, text, self._clock())
        elif before.text != text:
            self._held[key] = Notice(key, level, text, before.since)

    def over(self, key: str, text: str) -> None:
        """State that what `key` said is over; nothing happens if it did not hold."""
        if self._held.pop(key, None) is not None:
            self._log.info(text, notice=key)

    def holds(self, key: str) -> bool:
        """Whether the notice stands."""
        return key in self._held

    def standing(self) -> list[Notice]:
        """What holds now, the worst and oldest first; news that is over an hour old is none any more."""
        now = self._clock()
        for key, notice in list(self._held.items()):
            if notice.level == "info" and now - notice.since > NEWS_SECONDS:
                del self._held[key]
        order = {"error": 0, "warning": 1, "info": 2}
        return sorted(self._held.values(), key=lambda notice: (order[notice.level], notice.since))
