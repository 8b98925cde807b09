"""Quantiles of histograms whose buckets are elements with the label `le`."""

from __future__ import annotations

import math
import re

from collectors.sample import Labels
from rules.expression.arithmetic import divide
from rules.expression.vector import Vector, leaving_out
from rules.readings import Point

Bucket = tuple[float, float]
"""Upper bound, and how many observations were not above it."""

_BOUND = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE)


def histogram_quantiles(q: float, vector: Vector) -> Vector:
    """The quantile of each histogram; an element whose `le` is no number is left out."""
    histograms: dict[Labels, list[Bucket]] = {}
    for point in vector:
        bound = next((value for label, value in point.labels if label == "le"), "")
        if _BOUND.fullmatch(bound):
            labels = leaving_out(point.labels, ("le",))
            histograms.setdefault(labels, []).append((float(bound), point.value))
    return [Point(labels, bucket_quantile(q, buckets)) for labels, buckets in histograms.items()]


def bucket_quantile(q: float, buckets: list[Bucket]) -> float:
    """The quantile, linear within its bucket; no number without an infinite bucket, another or an observation.

    A rank in the infinite bucket gives the highest finite bound. Counts that sink with rising bounds, as rates of
    buckets read at different moments can, are raised to the one before.
    """
    if q != q:
        return math.nan
    if not 0.0 <= q <= 1.0:
        return -math.inf if q < 0.0 else math.inf
    joined = _joined(sorted(buckets, key=lambda bucket: bucket[0]))
    if joined[-1][0] != math.inf or len(joined) < 2 or joined[-1][1] == 0.0:
        return math.nan
    bounds, counts = [bound for bound, _ in joined], [count for _, count in joined]
    rank = q * counts[-1]
    place = _first_reaching(rank, counts)
    if place == len(joined) - 1:
        return bounds[-2]
    if place == 0 and bounds[0] <= 0.0:
        return bounds[0]
    low, below = (bounds[place - 1], counts[place - 1]) if place else (0.0, 0.0)
    return low + (bounds[place] - low) * divide(rank - below, counts[place] - below)


def _joined(buckets: list[Bucket]) -> list[Bucket]:
    """Buckets of the same bound added up, and counts that never sink."""
    found: list[Bucket] = []
    for bound, count in buckets:
        if found and found[-1][0] == bound:
            count += found.pop()[1]
        found.append((bound, count))
    most = found[0][1]
    for place, (bound, count) in enumerate(found):
        if count > most:
            most = count
        elif count < most:
            found[place] = (bound, most)
    return found


def _first_reaching(rank: float, counts: list[float]) -> int:
    """Where a binary search finds the first count that is not below `rank`, before the last bucket.

    Written out because counts may be no numbers, and then it matters which of them are looked at.
    """
    low, high = 0, len(counts) - 1
    while low < high:
        middle = (low + high) // 2
        if counts[middle] >= rank:
            high = middle
        else:
            low = middle + 1
    return low
