"""Device memory that the allocator has reserved and not given out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collectors.derived.trend import Floats, block_means, steady_growth, theil_sen
from collectors.history import History
from collectors.sample import Labels, Sample

RESERVED = "npu_allocator_reserved_bytes"
ALLOCATED = "npu_allocator_allocated_bytes"
OUT_OF_MEMORY = ("npu_out_of_memory_reserved_bytes", "npu_out_of_memory_allocated_bytes")
"""What the text of an error says, which is all that another process is told of the allocator."""

BASELINE_SECONDS = 20 * 3600.0
"""How far back the usual share is looked for, which differs from model to model (a healthy one may have 0.3)."""
RECENT_SECONDS = 3600.0
"""The last hour is what is compared with the baseline, so it is no part of it; growth is looked for in it."""
BASELINE_LEAST_SECONDS = 3600.0
USUAL_QUANTILE = 0.1
"""Low: the median of memory that went to pieces half a day ago is in pieces too, and the night has not come yet."""
GROWTH_LEAST_SECONDS = 1800.0
BLOCK_SECONDS = 60.0
HOUR = 3600.0


def fragmentation(reserved: Floats, allocated: Floats) -> Floats:
    """(reserved - allocated) / reserved of each pair that can be: something reserved, no more than that given out."""
    sound = (reserved > 0.0) & (allocated >= 0.0) & (allocated <= reserved)
    return 1.0 - allocated[sound] / reserved[sound]


def unexplained_growth(times: Floats, reserved: Floats, allocated: Floats) -> float | None:
    """Bytes per second by which reserved memory grows all along and allocated memory does not.

    The steady growth of the reserved less the upper bound of the allocated's slope (at least 0: when less is
    given out, that alone is no growth); 0 if they grow together or nothing does. None if too little is known.
    """
    mean_times, reserved = block_means(times, reserved, BLOCK_SECONDS)
    if len(mean_times) == 0 or mean_times[-1] - mean_times[0] < GROWTH_LEAST_SECONDS - BLOCK_SECONDS:
        return None
    found = steady_growth(mean_times, reserved)
    if found is None:
        return None
    _, steady = found
    if steady <= 0.0:
        return 0.0
    _, allocated = block_means(times, allocated, BLOCK_SECONDS)
    return max(steady - max(theil_sen(mean_times, allocated).high, 0.0), 0.0)


def samples(history: History, now: float) -> Iterator[Sample]:
    """Of each card whose allocator is known: the share now, the usual share, and the growth of the gap."""
    yield from _at_errors(history, now)
    for own in sorted({*history.series(RESERVED)} & {*history.series(ALLOCATED)}):
        latest = _pairs(history, own, now - RECENT_SECONDS, now)
        newest = fragmentation(latest[1][-1:], latest[2][-1:])
        if len(newest):
            yield Sample("npu_allocator_fragmentation_ratio", float(newest[0]), now, own)
        times, *before = _pairs(history, own, now - BASELINE_SECONDS, now - RECENT_SECONDS)
        usual = fragmentation(*before)
        if len(usual) and np.ptp(times) >= BASELINE_LEAST_SECONDS:
            yield Sample(
                "npu_allocator_fragmentation_baseline_ratio",
                float(np.quantile(usual, USUAL_QUANTILE)),
                now,
                own,
            )
        growth = unexplained_growth(*latest)
        if growth is not None:
            name = "npu_allocator_unexplained_growth_bytes_per_hour"
            yield Sample(name, growth * HOUR, now, own)


def _at_errors(history: History, now: float) -> Iterator[Sample]:
    """The share at the last out-of-memory error of each device."""
    for own in sorted(set.intersection(*({*history.series(name)} for name in OUT_OF_MEMORY))):
        said = [history.latest(name, own) for name in OUT_OF_MEMORY]
        reserved, allocated = (np.array([one.value] if one else [], dtype=np.float64) for one in said)
        for share in fragmentation(reserved, allocated):
            yield Sample("npu_out_of_memory_fragmentation_ratio", float(share), now, own)


def _pairs(history: History, own: Labels, start: float, end: float) -> tuple[Floats, Floats, Floats]:
    """Times, reserved and allocated bytes of the readings that gave both."""
    times, reserved = map(np.asarray, history.column(RESERVED, own, start, end))
    other_times, allocated = map(np.asarray, history.column(ALLOCATED, own, start, end))
    shared, at, other_at = np.intersect1d(times, other_times, return_indices=True)
    return shared, reserved[at], allocated[other_at]
