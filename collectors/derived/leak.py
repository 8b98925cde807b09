"""Memory that goes, hour after hour: HBM, the engine's processes, the host."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from collectors.derived.trend import Floats, block_means, steady_growth
from collectors.history import History
from collectors.sample import Labels, Sample

WINDOW_SECONDS = 12 * 3600.0
"""The guides' slow leak is one seen over half a day; in less, a load that rises looks the same."""
LEAST_SECONDS = 6 * 3600.0
"""Below this the warm-up of caches is most of what there is to see."""
BLOCK_SECONDS = 600.0
BEFORE_SECONDS = 24 * 3600.0
"""What was there before the window, as far as the history goes, is compared too: a daily swing rises for half
a day and comes hardly higher than the day before."""
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A quantity in bytes, the names of its growth and its lower bound, and which way a leak goes."""

    name: str
    growth: str
    low: str
    sign: float = 1.0
    of_engine: bool = True


WATCHED = (
    Watched("npu_hbm_used_bytes", "npu_hbm_growth_bytes_per_hour", "npu_hbm_growth_low_bytes_per_hour"),
    Watched(
        "trimtab_engine_process_resident_bytes",
        "trimtab_engine_process_growth_bytes_per_hour",
        "trimtab_engine_process_growth_low_bytes_per_hour",
    ),
    Watched(
        "trimtab_host_memory_available_bytes",
        "trimtab_host_memory_loss_bytes_per_hour",
        "trimtab_host_memory_loss_low_bytes_per_hour",
        sign=-1.0,
        of_engine=False,
    ),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes per hour: the robust slope, and what holds all along; a leak is shown only by a `low` above 0."""

    middle: float
    low: float


def growth(times: Floats, values: Floats, before: Floats) -> Growth | None:
    """The growth of a quantity; `before` are readings of it earlier than the window. None if too little is known."""
    times, values = block_means(times, values, BLOCK_SECONDS)
    if len(times) == 0 or times[-1] - times[0] < LEAST_SECONDS - BLOCK_SECONDS:
        return None
    found = steady_growth(times, values)
    if found is None:
        return None
    whole, low = found
    quarter = (times[-1] - times[0]) / 4.0
    last = float(np.median(values[times >= times[-1] - quarter]))
    if len(before) and last < before.max() + whole.middle * quarter:
        low = min(low, 0.0)
    return Growth(whole.middle * HOUR, low * HOUR)


def samples(history: History, now: float) -> Iterator[Sample]:
    """Growth and its lower bound of each series that is known for long enough."""
    # Another start is another process: what the last one held is no part of this one's growth.
    started = history.latest("trimtab_engine_start_time_seconds")
    engine_start = started.value if started is not None and isinstance(started.value, float) else -math.inf
    for watched in WATCHED:
        since = engine_start if watched.of_engine else -math.inf
        for own in history.series(watched.name):
            yield from _of_series(history, watched, own, since, now)


def _of_series(history: History, watched: Watched, own: Labels, since: float, now: float) -> Iterator[Sample]:
    begin = max(now - WINDOW_SECONDS, since)
    times, values = (np.asarray(part) for part in history.column(watched.name, own, begin, now))
    earliest = max(now - BEFORE_SECONDS, since)
    earlier = (
        np.asarray(history.column(watched.name, own, earliest, begin)[1]) if earliest < begin else values[:0]
    )
    found = growth(times, watched.sign * values, watched.sign * earlier)
    if found is not None:
        yield Sample(watched.growth, found.middle, now, own)
        yield Sample(watched.low, found.low, now, own)
