"""Cards that are held below their rated clock: as the driver says, else as clock and utilisation suggest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collectors.derived.cards import Floats, by_place, held, place, readings
from collectors.history import History
from collectors.sample import Labels, Sample

WINDOW_SECONDS = 180.0
LEAST_READINGS = 3
"""One low reading may fall between two steps of the engine."""
BUSY_RATIO = 0.5
"""Below it the clock may be low because nothing is asked of the card: 800 of 1800 MHz at idle is normal."""
FULL_CLOCK_RATIO = 0.95
"""Of the rated clock; what is nearer is one step of the clock's own grid."""
LONGEST_HOLD_SECONDS = 30.0
"""A reading of utilisation older than this is not that of the clock's moment."""
HIGHEST_SEEN_SECONDS = 24 * 3600.0

CLOCK = "npu_aicore_frequency_hertz"
RATED = "npu_aicore_rated_frequency_hertz"
USAGE = "npu_aicore_usage_ratio"
THROTTLED = "npu_throttled"


def slow_share(clock: Floats, usage: Floats, rated: float) -> float | None:
    """Share of busy readings with the clock below the rated one; None with fewer than `LEAST_READINGS` of them.

    `clock` in hertz and `usage` 0 to 1 are of the same moments; not a number is unknown. An idle card is
    None: its low clock says nothing.
    """
    busy = (usage >= BUSY_RATIO) & ~np.isnan(clock)
    if int(busy.sum()) < LEAST_READINGS or rated <= 0.0:
        return None
    return float(np.mean(clock[busy] < FULL_CLOCK_RATIO * rated))


def samples(history: History, now: float) -> Iterator[Sample]:
    """One sample of each card, labelled with where it comes from."""
    told = history.series(THROTTLED)
    for card in told:
        _, throttled = readings(history, THROTTLED, card, now, WINDOW_SECONDS)
        if len(throttled) >= LEAST_READINGS:
            yield _sample(float(np.mean(throttled > 0.0)), now, card, "dcmi")
    told_of = {place(card) for card in told}
    clocks = [card for card in history.series(CLOCK) if place(card) not in told_of]
    if not clocks:
        return
    highest = _highest(history, clocks, now)
    rated, usages = by_place(history, RATED), by_place(history, USAGE)
    for card in clocks:
        usage_of, rated_of = usages.get(place(card)), rated.get(place(card))
        known = history.latest(RATED, rated_of) if rated_of is not None else None
        full = known.value if known is not None else highest.get(_model(card))
        if usage_of is None or not isinstance(full, float | int):
            continue
        times, clock = readings(history, CLOCK, card, now, WINDOW_SECONDS)
        reach = WINDOW_SECONDS + LONGEST_HOLD_SECONDS
        usage = held(*readings(history, USAGE, usage_of, now, reach), times, LONGEST_HOLD_SECONDS)
        share = slow_share(clock, usage, full)
        if share is not None:
            yield _sample(share, now, card, "heuristic")


def _highest(history: History, cards: list[Labels], now: float) -> dict[str, float]:
    """The highest clock seen of each model: what stands for the rated one where that cannot be read."""
    found: dict[str, float] = {}
    for card in cards:
        _, clock = readings(history, CLOCK, card, now, HIGHEST_SEEN_SECONDS)
        if len(clock):
            found[_model(card)] = max(found.get(_model(card), 0.0), float(clock.max()))
    return found


def _model(card: Labels) -> str:
    return dict(card).get("name", "")


def _sample(share: float, now: float, card: Labels, source: str) -> Sample:
    return Sample("npu_throttled_share_ratio", share, now, tuple(sorted((*card, ("source", source)))))
