"""What the collectors last said of the engine and its cards, as a campaign wants it: unknown is None."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collectors.history import History
from collectors.sample import Labels

FRESH_SECONDS = 15.0
"""A reading older than this is unknown."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the collectors last said, None for unknown; `errors` counts failed answers since the last call."""

    running: float | None = None
    waiting: float | None = None
    temperature: float | None = None
    watts: float | None = None
    npus: int | None = None
    errors: float = 0.0
    alert: str | None = None


def history_gauges(
    history: History,
    own_card: Callable[[str], bool | None] = lambda npu: True,
    alert: Callable[[float], str | None] = lambda now: None,
) -> Callable[[float], Gauges]:
    """Read the gauges from the history; `own_card` says of an NPU's number whether it is the engine's, None: unknown.

    `alert` names the alert that speaks against whatever is tried now.

    A card that may be another engine's is in no sum. Its heat counts: of the two mistakes, to abort a trial is the
    safe one.
    """

    def fresh(name: str, now: float) -> list[tuple[str, float]]:
        """Values by the number of the NPU, which is empty for what is no card's."""
        found = []
        for labels in history.series(name):
            sample = history.latest(name, labels)
            if (
                sample is not None
                and isinstance(sample.value, float | int)
                and now - sample.time <= FRESH_SECONDS
            ):
                found.append((dict(labels).get("npu", ""), float(sample.value)))
        return found

    def total(name: str, now: float) -> float | None:
        values = [value for _, value in fresh(name, now)]
        return sum(values) if values else None

    errors = _new_errors(lambda now: total("trimtab_engine_http_errors_total", now))

    def read(now: float) -> Gauges:
        heat = [(own_card(npu), value) for npu, value in fresh("npu_temperature_celsius", now)]
        watts = [value for npu, value in fresh("npu_power_watts", now) if own_card(npu)]
        return Gauges(
            running=total("trimtab_engine_requests_running", now),
            waiting=total("trimtab_engine_requests_waiting", now),
            temperature=max((value for own, value in heat if own is not False), default=None),
            watts=sum(watts) if watts else None,
            npus=sum(own is True for own, _ in heat) or None,
            errors=errors(now),
            alert=alert(now),
        )

    return read


def one_engine_gauges(history: History, of: Labels) -> Callable[[float], Gauges]:
    """Read the gauges of an engine that is only watched, whose series carry the labels `of`; of its cards nothing."""

    def total(name: str, now: float) -> float | None:
        found = [history.latest(name, labels) for labels in history.series(name, of)]
        values = [
            float(sample.value)
            for sample in found
            if sample is not None
            and isinstance(sample.value, float | int)
            and now - sample.time <= FRESH_SECONDS
        ]
        return sum(values) if values else None

    errors = _new_errors(lambda now: total("trimtab_engine_http_errors_total", now))

    def read(now: float) -> Gauges:
        return Gauges(
            running=total("trimtab_engine_requests_running", now),
            waiting=total("trimtab_engine_requests_waiting", now),
            errors=errors(now),
        )

    return read


def _new_errors(total: Callable[[float], float | None]) -> Callable[[float], float]:
    """New 5xx answers since the last reading; a counter that fell began anew."""
    before: float | None = None

    def errors(now: float) -> float:
        nonlocal before
        count = total(now)
        if count is None:
            return 0.0
        last, before = before, count
        if last is None:
            return 0.0
        return count - last if count >= last else count

    return errors
