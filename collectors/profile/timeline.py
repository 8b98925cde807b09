"""How a device's time was covered, from its tasks in order of their start."""

from __future__ import annotations

import heapq
from itertools import count

from collectors.profile.model import Gap, Timeline

HOST_GAP_SECONDS = 50e-6
"""A gap of this length is counted: launching a prepared kernel takes a few microseconds, so the host was late."""
LONGEST_GAPS = 5


class Coverage:
    """Adds up computing, exposed communication and free time of one device in one pass.

    Tasks come in order of start (`add`); tasks that overlap are counted once. A task before the last one's start
    makes the sums wrong, so `result` is None then.
    """

    def __init__(self) -> None:
        self.in_order = True
        self._first: int | None = None
        self._last_start = 0
        self._busy_until = 0
        self._computed_until = 0
        self._busy = 0
        self._computing = 0
        self._gap_count = 0
        self._gap_ns = 0
        self._longest: list[tuple[int, int, str]] = []
        self._ties = count()

    def add(self, start: int, duration: int, name: str, computing: bool) -> None:
        """Add a task: start and duration in nanoseconds."""
        end = start + duration
        if self._first is None:
            self._first = self._busy_until = self._computed_until = start
        elif start < self._last_start:
            self.in_order = False
            return
        self._last_start = start
        if start - self._busy_until >= HOST_GAP_SECONDS * 1e9:
            self._gap(start - self._busy_until, name)
        if end > self._busy_until:
            self._busy += end - max(start, self._busy_until)
            self._busy_until = end
        if computing and end > self._computed_until:
            self._computing += end - max(start, self._computed_until)
            self._computed_until = end

    def _gap(self, length: int, name: str) -> None:
        self._gap_count += 1
        self._gap_ns += length
        heapq.heappush(self._longest, (length, -next(self._ties), name))
        if len(self._longest) > LONGEST_GAPS:
            heapq.heappop(self._longest)

    def result(self) -> Timeline | None:
        """The sums; None without tasks or where they were not in order."""
        if self._first is None or not self.in_order:
            return None
        span = self._busy_until - self._first
        return Timeline(
            span * 1e-9,
            self._computing * 1e-9,
            (self._busy - self._computing) * 1e-9,
            (span - self._busy) * 1e-9,
            self._gap_count,
            self._gap_ns * 1e-9,
            tuple(Gap(length * 1e-9, name) for length, _, name in sorted(self._longest, reverse=True)),
        )
