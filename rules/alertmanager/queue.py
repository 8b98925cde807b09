"""What waits to be sent to one Alertmanager: the latest state of each alert, oldest first, and not without end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice

from rules.alertmanager.payload import Posted

CAPACITY = 10_000
BATCH = 64
"""Both are Prometheus' figures (notification queue capacity, batch size)."""


class AlertQueue:
    """A bounded queue with one place for each fingerprint: a new state takes the place of the one that waits."""

    def __init__(self, capacity: int = CAPACITY, batch: int = BATCH) -> None:
        if capacity < 1 or batch < 1:
            raise ValueError(f"a queue holds at least one alert, got capacity {capacity} and batch {batch}")
        self._capacity = capacity
        self._batch = batch
        self._waiting: OrderedDict[str, Posted] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def holds(self, fingerprint: str) -> bool:
        """Whether a state of this alert waits."""
        return fingerprint in self._waiting

    def put(self, alerts: Iterable[Posted]) -> int:
        """Add states; returns how many of the oldest had to go."""
        dropped = 0
        for alert in alerts:
            key = alert.fingerprint
            if key not in self._waiting and len(self._waiting) >= self._capacity:
                self._waiting.popitem(last=False)
                dropped += 1
            self._waiting[key] = alert
        return dropped

    def expire(self, now: float) -> int:
        """Drop what says "fires" and holds no more: Alertmanager would take it for resolved, which nobody knows."""
        old = [key for key, alert in self._waiting.items() if alert.firing and alert.ends_at <= now]
        for key in old:
            del self._waiting[key]
        return len(old)

    def batch(self) -> tuple[Posted, ...]:
        """The oldest, which stay in the queue until they are `done`."""
        return tuple(islice(self._waiting.values(), self._batch))

    def done(self, alerts: Sequence[Posted]) -> None:
        """These need not be sent any more, unless a newer state of one has come meanwhile."""
        for alert in alerts:
            key = alert.fingerprint
            if self._waiting.get(key) is alert:
                del self._waiting[key]
