"""What the collectors last said of the engine and its cards, as a campaign wants it: unknown is None."""

from __future__ import annotations

from collections.abc import Callable

from collectors.history import History
from daemon.tuning import Gauges

FRESH_SECONDS = 15.0
"""A reading older than this is unknown."""


def history_gauges(history: History) -> Callable[[float], Gauges]:
    """Read the gauges from the history."""

    def fresh(name: str, now: float) -> list[float]:
        found = []
        for labels in history.series(name):
            sample = history.latest(name, labels)
            if (
                sample is not None
                and isinstance(sample.value, float | int)
                and now - sample.time <= FRESH_SECONDS
            ):
                found.append(float(sample.value))
        return found

    def total(name: str, now: float) -> float | None:
        values = fresh(name, now)
        return sum(values) if values else None

    errors_before: float | None = None

    def errors(now: float) -> float:
        """New 5xx answers since the last reading; a counter that fell began anew."""
        nonlocal errors_before
        count = total("trimtab_engine_http_errors_total", now)
        if count is None:
            return 0.0
        before, errors_before = errors_before, count
        if before is None:
            return 0.0
        return count - before if count >= before else count

    def read(now: float) -> Gauges:
        temperatures = fresh("npu_temperature_celsius", now)
        return Gauges(
            running=total("trimtab_engine_requests_running", now),
            waiting=total("trimtab_engine_requests_waiting", now),
            temperature=max(temperatures, default=None),
            watts=total("npu_power_watts", now),
            npus=len(temperatures) or None,
            errors=errors(now),
        )

    return read
