"""Functions over the readings of one series in a range."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rules.expression.arithmetic import divide
from rules.expression.rate import Window, increase, rate, seconds

RangeValue = Callable[[Window, float], float | None]
"""The value of a range, given the function's parameter; None where there is none."""


def mean(values: Iterable[float]) -> float:
    """The mean, updated with each value and its error carried along, so that it neither overflows nor drifts."""
    found = count = carried = 0.0
    for value in values:
        count += 1.0
        if (
            math.isinf(found)
            and not math.isnan(value)
            and (not math.isinf(value) or (found > 0) == (value > 0))
        ):
            continue
        found, carried = _add(value / count - found / count, found, carried)
    return found if math.isinf(found) else found + carried


def total(values: Iterable[float]) -> float:
    """The sum with its rounding error carried along (Kahan, Neumaier)."""
    found = carried = 0.0
    for value in values:
        found, carried = _add(value, found, carried)
    return found if math.isinf(found) else found + carried


def _add(value: float, found: float, carried: float) -> tuple[float, float]:
    raised = found + value
    if abs(found) >= abs(value):
        return raised, carried + ((found - raised) + value)
    return raised, carried + ((value - raised) + found)


def quantile(q: float, values: Sequence[float]) -> float:
    """The q-quantile, between two values by how near each is; infinite for a q that is none."""
    if not len(values) or q != q:
        return math.nan
    if not 0.0 <= q <= 1.0:
        return -math.inf if q < 0.0 else math.inf
    in_order = sorted(values, key=lambda value: (value == value, value))
    rank = q * (len(in_order) - 1)
    low = math.floor(rank)
    high = min(len(in_order) - 1, low + 1)
    weight = rank - low
    return in_order[low] * (1.0 - weight) + in_order[high] * weight


def slope(window: Window) -> float | None:
    """Change per second of the line of least squares; None with fewer than two readings."""
    if len(window.times) < 2:
        return None
    values = _floats(window)
    if all(value == values[0] for value in values):
        return math.nan if math.isinf(values[0]) else 0.0
    n = float(len(values))
    times = [seconds(time - window.times[0]) for time in window.times]
    sum_time, sum_value = total(times), total(values)
    sum_products = total([time * value for time, value in zip(times, values, strict=True)])
    sum_squares = total([time * time for time in times])
    return divide(sum_products - sum_time * sum_value / n, sum_squares - sum_time * sum_time / n)


def changes(window: Window) -> float:
    """How often the value changed; what is no number twice is no change."""
    values = np.asarray(window.values, dtype=np.float64)
    before, now = values[:-1], values[1:]
    return float(np.count_nonzero((now != before) & ~(np.isnan(now) & np.isnan(before))))


def _floats(window: Window) -> list[float]:
    values = window.values
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _largest(window: Window) -> float:
    return float(np.fmax.reduce(np.asarray(window.values, dtype=np.float64)))


def _smallest(window: Window) -> float:
    return float(np.fmin.reduce(np.asarray(window.values, dtype=np.float64)))


FUNCTIONS: dict[str, RangeValue] = {
    "rate": lambda window, _: rate(window),
    "increase": lambda window, _: increase(window),
    "changes": lambda window, _: changes(window),
    "deriv": lambda window, _: slope(window),
    "avg_over_time": lambda window, _: mean(_floats(window)),
    "sum_over_time": lambda window, _: total(_floats(window)),
    "min_over_time": lambda window, _: _smallest(window),
    "max_over_time": lambda window, _: _largest(window),
    "count_over_time": lambda window, _: float(len(window.values)),
    "last_over_time": lambda window, _: float(window.values[-1]),
    "quantile_over_time": lambda window, q: quantile(q, _floats(window)),
}
"""By name, with the function's parameter."""
