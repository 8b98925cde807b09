"""Guards: limits that end a trial at once, one-sided and immediate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from scipy.stats import binom

from change.engine import RequestRecord
from tuner.settings import Limit, Slo
from tuner.window import GapCounts, failed, gap_share_above, request_latency

TAIL = 0.001
QUEUE_FACTOR = 3.0
QUEUE_FLOOR = 8.0
"""A queue shorter than this never trips the guard: three times nothing is nothing."""
ERROR_STORM = 3
"""Failed requests or 5xx answers under one candidate that end its trial."""
UNKNOWN_INTERVALS = 2
"""Observations in a row without request data after which a candidate is not left serving."""


@lru_cache(maxsize=4096)
def violations_needed(held: int, share: float) -> int:
    """Smallest count of violations among `held` whose binomial tail at `share` is under 0.001."""
    count = int(binom.isf(TAIL, held, share))
    while binom.sf(count - 1, held, share) >= TAIL:
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Serving:
    """What the candidate's time in force looked like so far."""

    records: tuple[RequestRecord, ...]
    gaps: GapCounts
    running: float | None
    waiting: float | None
    temperature: float | None
    errors: float
    unknown_intervals: int
    alert: str | None


@dataclass(frozen=True, slots=True)
class Ranges:
    """The incumbent's own range: what a candidate is compared with.

    `shares` maps a limit's key to the largest violating share of its recent windows; `queue` is the upper end of its
    waiting requests.
    """

    shares: Mapping[str, float]
    queue: float


def _violations(limit: Limit, serving: Serving) -> tuple[int, int]:
    """How many of how many broke a limit; token gaps of one step count once, since the batch shares the step."""
    if limit.metric == "itl":
        share, gaps = gap_share_above(serving.gaps, limit.seconds)
        steps = int(gaps / max(1.0, serving.running or 1.0))
        return round(share * steps), steps
    taken = [request_latency(record, limit.metric) for record in serving.records]
    known = [value for value in taken if value is not None]
    return sum(value > limit.seconds for value in known), len(known)


def verdict(serving: Serving, slo: Slo, ranges: Ranges, max_temperature: float) -> str | None:
    """Why the candidate must go at once, or None. Reasons carry the figures that broke the limit."""
    if serving.unknown_intervals >= UNKNOWN_INTERVALS:
        return f"request data unknown for {serving.unknown_intervals} intervals"
    if serving.alert is not None:
        return f"alert: {serving.alert}"
    errors = serving.errors + _failed(serving.records)
    if errors >= ERROR_STORM:
        return f"{errors:.0f} requests failed"
    if serving.temperature is not None and serving.temperature > max_temperature:
        return f"temperature {serving.temperature:.0f} C above {max_temperature:.0f} C"
    queue_limit = max(QUEUE_FLOOR, QUEUE_FACTOR * ranges.queue)
    if serving.waiting is not None and serving.waiting > queue_limit:
        return (
            f"{serving.waiting:.0f} requests waiting, over {queue_limit:.0f} (3 times the incumbent's range)"
        )
    for limit in slo.limits:
        broken, held = _violations(limit, serving)
        allowed = max(limit.allowance, ranges.shares.get(limit.key, 0.0))
        if broken > held * allowed and allowed < 1.0 and broken >= violations_needed(held, round(allowed, 3)):
            return f"{limit.key}: {broken} of {held} over {limit.seconds:g} s, {allowed:.0%} allowed"
    return None


def _failed(records: Iterable[RequestRecord]) -> int:
    return sum(failed(record) for record in records)


def violating_share(limit: Limit, records: Iterable[RequestRecord], gaps: GapCounts) -> float:
    """Share of one window that broke a limit; 0 where nothing was held to it."""
    if limit.metric == "itl":
        return gap_share_above(gaps, limit.seconds)[0]
    known = [value for record in records if (value := request_latency(record, limit.metric)) is not None]
    return sum(value > limit.seconds for value in known) / len(known) if known else 0.0
