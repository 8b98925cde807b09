"""Cards that have become busier beside the others they work with: those wait for a card that has become slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from collectors.derived.cards import Engines, groups, readings
from collectors.history import History
from collectors.sample import Sample

NAME = "npu_aicore_usage_ratio"
NOW_SECONDS, BEFORE_SECONDS = 300.0, 6 * 3600.0
LEAST_READINGS = 3
LEAST_OF_ONE = 0.05
"""A ratio to less means nothing."""
LEAST_OF_ALL = 0.3
"""Under less load the cards differ too much, and nobody waits long."""


def busier(now: Sequence[float], before: Sequence[float]) -> list[float | None]:
    """How much more each card's use has grown than that of whichever other grew most; 0.1 is 10% more.

    Against the cards' own past their lasting differences cancel. With the other that grew most and not with their
    middle: of one slow card all others wait, while cards that go on together beside some that fall idle are another
    engine's, or another data-parallel rank's. None where there is too little use to say.
    """
    known = [min(pair) >= LEAST_OF_ONE for pair in zip(now, before, strict=True)]
    grown = [new / old if well else 0.0 for new, old, well in zip(now, before, known, strict=True)]
    if sum(known) < 2 or fmean(now) < LEAST_OF_ALL:
        return [None] * len(known)
    return [
        one / max(other for place, other in enumerate(grown) if place != index) - 1.0
        if known[index]
        else None
        for index, one in enumerate(grown)
    ]


def samples(history: History, now: float, engines: Engines = ()) -> Iterator[Sample]:
    """One sample of each card that can be compared."""
    for cards in groups(history, NAME, engines):
        means = []
        for own in cards:
            _, new = readings(history, NAME, own, now, NOW_SECONDS)
            _, old = readings(history, NAME, own, now, BEFORE_SECONDS)
            if len(new) >= LEAST_READINGS:
                means.append((own, float(new.mean()), float(old.mean())))
        found = busier([new for _, new, _ in means], [old for _, _, old in means])
        for (own, _, _), more in zip(means, found, strict=True):
            if more is not None:
                yield Sample("npu_busier_ratio", more, now, own)
