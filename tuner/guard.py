"""Guards: limits that end a trial at once, one-sided and immediate.

Each request is held to the limits on its own: for `itl` by its mean token gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import binom, poisson

from change.engine import RequestRecord
from tuner.settings import Limit, Slo
from tuner.window import failed, request_latency

TAIL = 0.001
QUEUE_FACTOR = 3.0
QUEUE_FLOOR = 8.0
"""A queue shorter than this never trips the guard: three times nothing is nothing."""
QUEUE_LOOKS = 5
"""Looks in a row that a queue over the limit may last while it drains.

A machine that stalls for a second leaves a queue behind whoever serves; the config's own queue grows or stands.
"""
ERROR_STORM = 3
"""Failed requests or 5xx answers under one candidate that end its trial, where the SLO allows no share of them."""
WINDOWS = 12
"""Incumbent windows that its range comes from."""
UNKNOWN_INTERVALS = 2
"""Observations in a row without request data after which a candidate is not left serving."""


@lru_cache(maxsize=4096)
def violations_needed(held: int, share: float) -> int:
    """Smallest count of violations among `held` whose binomial tail at `share` is under 0.001."""
    if share >= 1.0:
        return held + 1
    count = int(binom.isf(TAIL, held, share))
    while binom.sf(count - 1, held, share) >= TAIL:
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Serving:
    """What an observation says of the candidate that serves, None for unknown."""

    waiting: float | None
    temperature: float | None
    unknown_intervals: int
    alert: str | None


class Baseline:
    """The incumbent's own range over its recent windows: what a candidate is compared with."""

    def __init__(self, slo: Slo) -> None:
        self._slo = slo
        self._seconds = 0
        self._errors = 0.0
        self._flags: dict[str, deque[list[bool]]] = {limit.key: deque(maxlen=WINDOWS) for limit in slo.limits}

    def add(self, records: Iterable[RequestRecord]) -> None:
        """Take in the requests of one incumbent window, in order."""
        kept = list(records)
        for limit in self._slo.limits:
            flags = [breaks(limit, record) for record in kept]
            self._flags[limit.key].append([flag for flag in flags if flag is not None])

    def see_errors(self, errors: float) -> None:
        """Take in the 5xx answers of one second under the incumbent."""
        self._seconds += 1
        self._errors += errors

    def errors_needed(self, seconds: int) -> int:
        """Smallest count of 5xx answers within `seconds` that the incumbent's own rate of them does not explain."""
        if not self._errors:
            return ERROR_STORM
        usual = self._errors / self._seconds * seconds
        return max(ERROR_STORM, int(poisson.isf(TAIL, usual)) + 1)

    def usual(self, limit: Limit) -> float:
        """Share of the incumbent's requests that broke a limit; 0 where nothing is known."""
        windows = self._flags[limit.key]
        held = sum(map(len, windows))
        return sum(map(sum, windows)) / held if held else 0.0

    def worst_run(self, limit: Limit, length: int) -> int:
        """Most violations that the incumbent had among `length` requests in a row.

        Traffic comes in bursts, and a burst hurts whoever serves it: independent requests are too kind a model.
        """
        worst = 0
        for flags in self._flags[limit.key]:
            total = np.concatenate([[0], np.cumsum(flags)])
            reach = min(length, len(flags))
            worst = max(worst, int((total[reach:] - total[: len(total) - reach]).max()))
        return worst


class Watch:
    """Counts what the candidate's own requests broke since it was put in force."""

    def __init__(self, slo: Slo, epoch: int) -> None:
        self.epoch = epoch
        self._failed = 0
        self._errors = 0.0
        self._looks = 0
        self._queues: list[float] = []
        self._limits = slo.limits
        self._error_ratio = slo.error_ratio
        self._finished = 0
        self._held = {limit.key: 0 for limit in slo.limits}
        self._broken = {limit.key: 0 for limit in slo.limits}

    def see(self, records: Iterable[RequestRecord], errors: float) -> None:
        """Count finished requests that arrived and began under the candidate, and 5xx answers.

        Who had to wait before it came is not its fault.
        """
        self._looks += 1
        # What the server counted by the first look happened before the candidate came.
        self._errors += errors if self._looks > 1 else 0.0
        for record in records:
            if not record.epoch_arrival == record.epoch_first_token == self.epoch:
                continue
            self._finished += 1
            self._failed += failed(record)
            for limit in self._limits:
                flag = breaks(limit, record)
                if flag is not None:
                    self._held[limit.key] += 1
                    self._broken[limit.key] += flag

    def verdict(
        self, serving: Serving, baseline: Baseline, queue: float, max_temperature: float
    ) -> str | None:
        """Why the candidate must go at once, or None; `queue` is the longest that the incumbent had lately."""
        if serving.unknown_intervals >= UNKNOWN_INTERVALS:
            return f"request data unknown for {serving.unknown_intervals} intervals"
        if serving.alert is not None:
            return f"alert: {serving.alert}"
        if self._failed >= self._most_failures():
            return f"{self._failed} requests failed"
        if self._errors >= max(self._most_failures(), baseline.errors_needed(self._looks)):
            return f"the server answered {self._errors:.0f} requests with an error"
        if serving.temperature is not None and serving.temperature > max_temperature:
            return f"temperature {serving.temperature:.0f} C above {max_temperature:.0f} C"
        if (reason := self._queue_over(serving.waiting, max(QUEUE_FLOOR, QUEUE_FACTOR * queue))) is not None:
            return reason
        for limit in self._limits:
            if (reason := self._over(limit, baseline)) is not None:
                return reason
        return None

    def _queue_over(self, waiting: float | None, most: float) -> str | None:
        """Count the looks in a row at a queue over `most`; a growing one is enough at the second."""
        if waiting is None or waiting <= most:
            self._queues.clear()
            return None
        self._queues.append(waiting)
        grows = len(self._queues) > 1 and waiting > self._queues[-2]
        if not grows and len(self._queues) < QUEUE_LOOKS:
            return None
        return f"{waiting:.0f} requests waiting, over {most:.0f} (3 times the incumbent's range)"

    def _most_failures(self) -> int:
        if not self._error_ratio:
            return ERROR_STORM
        return max(ERROR_STORM, violations_needed(max(self._finished, 1), self._error_ratio))

    def _over(self, limit: Limit, baseline: Baseline) -> str | None:
        count, held = self._broken[limit.key], self._held[limit.key]
        if count <= held * limit.allowance:
            return None
        allowed = round(max(limit.allowance, baseline.usual(limit)), 3)
        if count < violations_needed(held, allowed) or count <= baseline.worst_run(limit, held):
            return None
        return f"{limit.key}: {count} of {held} over {limit.seconds:g} s, {allowed:.0%} allowed"


def breaks(limit: Limit, record: RequestRecord) -> bool | None:
    """Whether one request broke a limit; None if it has no such latency."""
    taken = request_latency(record, limit.metric)
    return None if taken is None else taken > limit.seconds
