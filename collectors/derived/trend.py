"""Straight and steady growth: Theil-Sen slopes with their confidence, and what holds in every part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import theilslopes

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
PARTS = 4
"""A warm-up has a flat end, a step flat parts on both sides, a saw-tooth a part that falls."""
LEAST_POINTS = 5
"""Fewer points in a part bound no slope: with four the interval may hold every slope there is."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth per second: the median of all slopes between two points, and its 95% interval."""

    middle: float
    low: float
    high: float


def theil_sen(times: Floats, values: Floats) -> Slope:
    """The robust slope of at least two points; the interval takes the errors of the points as independent."""
    if np.ptp(values) == 0.0:
        return Slope(0.0, 0.0, 0.0)
    found = theilslopes(values, times, alpha=CONFIDENCE)
    return Slope(float(found.slope), float(found.low_slope), float(found.high_slope))


def block_means(times: Floats, values: Floats, seconds: float) -> tuple[Floats, Floats]:
    """Mean time and value of each block of `seconds` that has a point: fewer and more independent points."""
    if len(times) == 0:
        return times, values
    blocks = np.floor((times - times[0]) / seconds).astype(np.int64)
    counts = np.bincount(blocks)
    held = counts > 0
    # Of the distance to the first: sums of Unix times would lose the seconds.
    mean_times = times[0] + np.bincount(blocks, times - times[0])[held] / counts[held]
    return mean_times, np.bincount(blocks, values)[held] / counts[held]


def steady_growth(times: Floats, values: Floats) -> tuple[Slope, float] | None:
    """The slope over the whole, and the growth per second that holds all along.

    That is the least of the lower bounds of the slopes within each quarter of the time, and of the growth from
    each quarter's median to the next: above 0 only if every part of it grows. None if a quarter has too few
    points.
    """
    edges = np.linspace(times[0], times[-1], PARTS + 1) if len(times) else np.zeros(PARTS + 1)
    places = np.searchsorted(times, edges[1:-1])
    parts = list(zip(np.split(times, places), np.split(values, places), strict=True))
    if any(len(part_times) < LEAST_POINTS for part_times, _ in parts):
        return None
    middles = np.array([[np.median(part_times), np.median(part)] for part_times, part in parts])
    apart, grown = np.diff(middles, axis=0).T
    least = float(np.min(grown / apart))
    if least > 0.0:  # else no part can make it a growth again
        least = min(least, *(theil_sen(*part).low for part in parts))
    return theil_sen(times, values), least
