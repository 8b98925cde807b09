"""What a counter grew by in a range, as Prometheus extrapolates it to the range's ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Window:
    """The readings of one series in a range of time, at least one, and where the range begins and ends."""

    times: Sequence[float]
    values: Sequence[float]
    start: float
    end: float


def increase(window: Window) -> float | None:
    """Growth over the whole range; None with fewer than two readings."""
    found = _growth(window)
    return None if found is None else found[0] * found[1]


def rate(window: Window) -> float | None:
    """Growth per second; None with fewer than two readings."""
    found = _growth(window)
    return None if found is None else found[0] * (found[1] / seconds(window.end - window.start))


def seconds(difference: float) -> float:
    """A difference of times in whole milliseconds, as Prometheus counts."""
    return round(difference * 1000.0) / 1000.0


def _growth(window: Window) -> tuple[float, float] | None:
    """Growth between the first and the last reading, and the factor that extrapolates it to the range's ends.

    A value below the one before is a counter that began again from zero. An end further than 1.1 of the mean
    distance of readings is not reached: half of that distance is added there. Nothing is extrapolated to before the
    counter was zero.
    """
    count = len(window.times)
    if count < 2:
        return None
    first = window.values[0]
    grown = window.values[-1] - first
    for before, value in pairwise(window.values):
        if value < before:
            grown += before
    between = seconds(window.times[-1] - window.times[0])
    if between <= 0.0:
        return None
    to_start = seconds(window.times[0] - window.start)
    to_end = seconds(window.end - window.times[-1])
    if grown > 0.0 and first >= 0.0:
        to_start = min(to_start, between * (first / grown))
    distance = between / (count - 1)
    reached = between
    for gap in (to_start, to_end):
        reached += gap if gap < distance * 1.1 else distance / 2
    return grown, reached / between
