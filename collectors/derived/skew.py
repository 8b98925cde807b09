"""Cards that differ from the others they work with: in utilisation, clock or temperature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median

from collectors.derived.cards import Engines, groups, readings
from collectors.history import History
from collectors.sample import Sample

WINDOW_SECONDS = 120.0
"""The mean of a dozen readings: a single reading of utilisation is one moment of a step."""
LEAST_READINGS = 3
SPREADS = 3.0
"""Deviations within three robust standard deviations of the others are the spread of healthy cards."""
MAD_TO_SIGMA = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""

QUANTITIES = (
    # What is compared, and the least median of the others at which a ratio to it means anything.
    ("utilisation", "npu_aicore_usage_ratio", 0.05),
    ("clock", "npu_aicore_frequency_hertz", 1.0),
    ("temperature", "npu_temperature_celsius", 1.0),
)


def skew(values: Sequence[float], least: float) -> list[float | None]:
    """How far each value is from the median of the others beyond their own spread, over that median.

    0 within `SPREADS` of them, else the signed rest. None where the others' median is below `least`. Of two
    values each is compared with the other alone, which has no spread.
    """
    found: list[float | None] = []
    for index, value in enumerate(values):
        others = [*values[:index], *values[index + 1 :]]
        centre = median(others) if others else 0.0
        if not others or centre < least:
            found.append(None)
            continue
        spread = SPREADS * MAD_TO_SIGMA * median([abs(other - centre) for other in others])
        beyond = max(abs(value - centre) - spread, 0.0) / centre
        found.append(beyond if value > centre else 0.0 - beyond)  # never -0.0
    return found


def samples(history: History, now: float, engines: Engines = ()) -> Iterator[Sample]:
    """One sample of each card and quantity that can be compared."""
    for of, name, least in QUANTITIES:
        for cards in groups(history, name, engines):
            means = []
            for own in cards:
                _, values = readings(history, name, own, now, WINDOW_SECONDS)
                if len(values) >= LEAST_READINGS:
                    means.append((own, fmean(values)))
            for (own, _), ratio in zip(means, skew([mean for _, mean in means], least), strict=True):
                if ratio is not None:
                    yield Sample("npu_skew_ratio", ratio, now, tuple(sorted((*own, ("of", of)))))
