"""Functions over the readings of one series in a range."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

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
    values = window.values
    if all(value == values[0] for value in values):
        return math.nan if math.isinf(values[0]) else 0.0
    n = float(len(values))
    times = [seconds(time - window.times[0]) for time in window.times]
    sum_time, sum_value = total(times), total(values)
    sum_products = total([time * value for time, value in zip(times, values, strict=True)])
    sum_squares = total([time * time for time in times])
    return divide(sum_products - sum_time * sum_value / n, sum_squares - sum_time * sum_time / n)


def changes(values: Iterable[float]) -> float:
    """How often the value changed; what is no number twice is no change."""
    return float(sum(now != before and (now == now or before == before) for before, now in pairwise(values)))


def _numbers(values: Iterable[float]) -> list[float]:
    """The values that are numbers; where none is, one that is not."""
    return [value for value in values if value == value] or [math.nan]


FUNCTIONS: dict[str, RangeValue] = {
    "rate": lambda window, _: rate(window),
    "increase": lambda window, _: increase(window),
    "changes": lambda window, _: changes(window.values),
    "deriv": lambda window, _: slope(window),
    "avg_over_time": lambda window, _: mean(window.values),
    "sum_over_time": lambda window, _: total(window.values),
    "min_over_time": lambda window, _: min(_numbers(window.values)),
    "max_over_time": lambda window, _: max(_numbers(window.values)),
    "count_over_time": lambda window, _: float(len(window.values)),
    "last_over_time": lambda window, _: window.values[-1],
    "quantile_over_time": lambda window, q: quantile(q, window.values),
}
"""By name, with the function's parameter."""
