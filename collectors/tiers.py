"""One series in bounded memory: every reading for a while, then one in ten seconds, then one a minute."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tier:
    """A resolution in seconds (0: every reading) and how many seconds are kept, with a limit of points."""

    resolution_seconds: float
    keep_seconds: float
    max_points: int


TIERS = (Tier(0.0, 900.0, 2000), Tier(10.0, 7200.0, 720), Tier(60.0, 86400.0, 1440))
DETAIL_TIERS = (Tier(30.0, 3600.0, 120),)
"""For the figures of single links, lanes and ports, of which one machine can have ten thousand."""


class Ring:
    """Rows of doubles by time, oldest out first."""

    __slots__ = ("_mean", "_slot", "_slot_rows", "_tier", "_times", "_values", "_width")

    def __init__(self, tier: Tier, width: int, mean: bool) -> None:
        self._tier = tier
        self._width = width
        self._mean = mean
        self._times = array("d")
        self._values = array("d")
        self._slot: float | None = None
        self._slot_rows = 0

    def __len__(self) -> int:
        return len(self._times)

    @property
    def oldest(self) -> float | None:
        return self._times[0] if self._times else None

    def append(self, time: float, row: Sequence[float]) -> None:
        """Add a row later than all others: a slot keeps the mean of a gauge and the last of a counter."""
        resolution = self._tier.resolution_seconds
        if resolution > 0.0:
            slot = time // resolution
            if slot == self._slot:
                self._slot_rows += 1
                self._times[-1] = time
                if self._mean:
                    self._values[-1] += (row[0] - self._values[-1]) / self._slot_rows
                else:
                    self._values[-self._width :] = array("d", row)
                return
            self._slot, self._slot_rows = slot, 1
        self._times.append(time)
        self._values.extend(row)
        self._trim(time)

    def _trim(self, now: float) -> None:
        excess = len(self._times) - self._tier.max_points
        if excess <= 0 and self._times[0] >= now - self._tier.keep_seconds * 1.1:
            return
        # A tenth at a time, so that the cost of moving the rest is spread.
        drop = max(excess + self._tier.max_points // 10 if excess > 0 else 0, 0)
        drop = max(drop, bisect_right(self._times, now - self._tier.keep_seconds))
        drop = min(drop, len(self._times) - 1)
        del self._times[:drop]
        del self._values[: drop * self._width]

    def row(self, index: int) -> tuple[float, ...]:
        return tuple(self._values[index * self._width : (index + 1) * self._width])

    def column(self, start: float, end: float, place: int) -> tuple[array[float], array[float]]:
        """Times of the rows in [start, end] and their values at `place` (negative: from the row's end)."""
        low, high = self.span(start, end)
        first = low * self._width + place % self._width
        return self._times[low:high], self._values[first : high * self._width : self._width]

    def span(self, start: float, end: float) -> tuple[int, int]:
        """Indices [low, high) of the rows with start <= time <= end."""
        low = bisect_right(self._times, start)
        while low > 0 and self._times[low - 1] == start:
            low -= 1
        return low, bisect_right(self._times, end)

    def time(self, index: int) -> float:
        return self._times[index]


class Rings:
    """The tiers of one series; a question goes to the finest tier that reaches back far enough."""

    __slots__ = ("_rings",)

    def __init__(self, width: int, mean: bool, tiers: Sequence[Tier] = TIERS) -> None:
        self._rings = [Ring(tier, width, mean) for tier in tiers]

    def append(self, time: float, row: Sequence[float]) -> None:
        for ring in self._rings:
            ring.append(time, row)

    def points(self) -> int:
        return sum(len(ring) for ring in self._rings)

    def reaching(self, start: float) -> Ring:
        """The finest tier that has a row no later than `start`, else the one that reaches back furthest."""
        best = self._rings[0]
        for ring in self._rings:
            oldest, best_oldest = ring.oldest, best.oldest
            if oldest is not None and oldest <= start:
                return ring
            if oldest is not None and best_oldest is not None and oldest < best_oldest:
                best = ring
        return best
