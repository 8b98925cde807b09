"""A canary replica beside one that stays as it is: windows of both paired by time instead of in turn.

What hits both at once (the hour, the users, the network) cancels in each pair, however it changes. What makes the two
nodes different does not, so that the canary still alternates between the incumbent and the candidate: its scores are
differences from its neighbour, and `tuner.outer.alternation` judges them as it judges those of one engine in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, stdev

from tuner.limits import other_gains
from tuner.objective import Scale
from tuner.outer.stint import LEAST_WINDOWS, Score
from tuner.switchback import ScoredWindow

LEAST_OVERLAP = 0.5
"""Share of the longer of two windows that both must have in common to be a pair."""


def pairs_in_time(
    canary: Sequence[ScoredWindow], base: Sequence[ScoredWindow]
) -> list[tuple[ScoredWindow, ScoredWindow]]:
    """Pair each valid window of the canary with the valid one of its neighbour that it shares most time with.

    Each window is in at most one pair; one without a partner is left out.
    """
    free = [window for window in base if window.valid]
    found = []
    for mine in (window for window in canary if window.valid):
        theirs = max(free, key=lambda other: _overlap(mine, other), default=None)
        if theirs is not None and _overlap(mine, theirs) >= LEAST_OVERLAP:
            free.remove(theirs)
            found.append((mine, theirs))
    return found


def beside(canary: Sequence[ScoredWindow], base: Sequence[ScoredWindow], scale: Scale) -> Score | None:
    """What the canary showed against its neighbour in one stint; None where too few pairs can tell.

    The error allows for neighbouring pairs that are alike: their correlation widens it, and never narrows it.
    """
    gains, middles = [], []
    others: dict[str, list[float]] = {}
    for mine, theirs in pairs_in_time(canary, base):
        one, other = scale.score(mine.metrics), scale.score(theirs.metrics)
        if one is None or other is None:
            continue
        gains.append(one - other)
        middles.append((mine.interval.start + mine.interval.end) / 2.0)
        for name, gain in other_gains(mine.metrics, theirs.metrics).items():
            others.setdefault(name, []).append(gain)
    if len(gains) < LEAST_WINDOWS:
        return None
    alike = min(max(0.0, _correlation(gains)), 0.9)
    error = stdev(gains) * math.sqrt((1.0 + alike) / (1.0 - alike) / len(gains))
    return Score(mean(middles), mean(gains), error, {name: mean(values) for name, values in others.items()})


def _overlap(one: ScoredWindow, other: ScoredWindow) -> float:
    common = min(one.interval.end, other.interval.end) - max(one.interval.start, other.interval.start)
    return max(0.0, common) / max(one.interval.seconds, other.interval.seconds)


def _correlation(values: Sequence[float]) -> float:
    """Correlation of each value with the one after it."""
    middle = mean(values)
    apart = [value - middle for value in values]
    size = sum(x * x for x in apart)
    return sum(a * b for a, b in pairwise(apart)) / size if size > 0 else 0.0
