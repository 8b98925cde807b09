"""One series in bounded memory: every reading for a while, then one in ten seconds, then one a minute."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TIMES: str = "d"
_STAMPS: str = "I"
"""Whole milliseconds in four bytes."""
MILLISECONDS = 1000.0
MOST_MILLISECONDS = 2**31
"""Half of what four bytes hold, so that a slot may go on after it: three weeks."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A resolution in seconds (0: every reading) and how many seconds are kept, with a limit of points."""

    resolution_seconds: float
    keep_seconds: float
    max_points: int

    def __post_init__(self) -> None:
        if self.resolution_seconds > 0.0 and self.keep_seconds * MILLISECONDS > MOST_MILLISECONDS:
            raise ValueError(f"slots are kept for three weeks at most, got {self.keep_seconds:g} s")


TIERS = (Tier(0.0, 900.0, 2000), Tier(10.0, 7200.0, 720), Tier(60.0, 86400.0, 1440))
DETAIL_TIERS = (Tier(30.0, 3600.0, 120),)
"""For the figures of single links, lanes and ports, of which one machine can have ten thousand."""


class Ring:
    """Rows of doubles by time, oldest out first.

    The times of slots are whole milliseconds since a base, in four bytes, so that a row of one value takes 12 bytes.
    Series that were read at the same time still have equal times.
    """

    __slots__ = ("_base", "_mean", "_overdue", "_slot", "_slot_rows", "_tier", "_times", "_values", "_width")

    def __init__(self, tier: Tier, width: int, mean: bool) -> None:
        self._tier = tier
        self._width = width
        self._mean = mean
        self._base = 0
        self._overdue = -math.inf
        self._times: array[float] = array(_STAMPS if tier.resolution_seconds > 0.0 else _TIMES, ())
        self._values = array("d")
        self._slot: float | None = None
        self._slot_rows = 0

    def __len__(self) -> int:
        return len(self._times)

    @property
    def oldest(self) -> float | None:
        return self.time(0) if self._times else None

    def append(self, time: float, row: Sequence[float]) -> None:
        """Add a row later than all others: a slot keeps the mean of a gauge and the last of a counter."""
        resolution = self._tier.resolution_seconds
        if resolution > 0.0:
            stamp = int(time * MILLISECONDS) - self._base
            slot = time // resolution
            if slot == self._slot:
                self._slot_rows += 1
                self._times[-1] = stamp
                if self._mean:
                    self._values[-1] += (row[0] - self._values[-1]) / self._slot_rows
                elif self._width == 1:
                    self._values[-1] = row[0]
                else:
                    self._values[-self._width :] = array("d", row)
                return
            self._slot, self._slot_rows = slot, 1
            if not 0 <= stamp <= MOST_MILLISECONDS or not self._times:
                stamp = self._rebased(time)
            self._times.append(stamp)
        else:
            self._times.append(time)
        self._values.extend(row)
        if time > self._overdue or len(self._times) > self._tier.max_points:
            self._trim(time)

    def _rebased(self, time: float) -> int:
        """Count from the oldest row that is still kept at `time`, and give that time's distance."""
        _, drop = self.span(-math.inf, time - self._tier.keep_seconds)
        self._drop(drop)
        stamps = [self._base + int(stamp) for stamp in self._times]
        now = int(time * MILLISECONDS)
        self._base = stamps[0] if stamps else now
        self._times = array(_STAMPS, [stamp - self._base for stamp in stamps])
        return now - self._base

    def _trim(self, now: float) -> None:
        # A tenth at a time, so that the cost of moving the rest is spread.
        excess = len(self._times) - self._tier.max_points
        drop = max(excess + self._tier.max_points // 10 if excess > 0 else 0, 0)
        drop = max(drop, self.span(-math.inf, now - self._tier.keep_seconds)[1])
        self._drop(min(drop, len(self._times) - 1))
        self._overdue = self.time(0) + self._tier.keep_seconds * 1.1

    def _drop(self, rows: int) -> None:
        del self._times[:rows]
        del self._values[: rows * self._width]

    def row(self, index: int) -> tuple[float, ...]:
        return tuple(self._values[index * self._width : (index + 1) * self._width])

    def column(self, start: float, end: float, place: int) -> tuple[Floats, Floats]:
        """Times of the rows in [start, end] and their values at `place` (negative: from the row's end)."""
        low, high = self.span(start, end)
        times = np.array(self._times[low:high], dtype=np.float64)
        if self._tier.resolution_seconds > 0.0:
            times = (times + self._base) / MILLISECONDS
        first = low * self._width + place % self._width
        return times, np.array(self._values[first : high * self._width : self._width])

    def span(self, start: float, end: float) -> tuple[int, int]:
        """Indices [low, high) of the rows with start <= time <= end."""
        if self._tier.resolution_seconds <= 0.0:
            return bisect_left(self._times, start), bisect_right(self._times, end)
        # What was cut off of a stamp must not keep out a row that was read at `start` itself.
        low = bisect_right(self._times, start * MILLISECONDS - self._base - 1.0)
        return low, bisect_right(self._times, end * MILLISECONDS - self._base)

    def time(self, index: int) -> float:
        if self._tier.resolution_seconds <= 0.0:
            return self._times[index]
        return (self._times[index] + self._base) / MILLISECONDS


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
