"""Elements of a vector made one per group."""

from __future__ import annotations

import math
from collections.abc import Callable

from collectors.sample import Labels
from rules.expression.nodes import Aggregate
from rules.expression.vector import Vector, keeping, leaving_out
from rules.readings import Point


def aggregate(node: Aggregate, vector: Vector) -> Vector:
    """One element for each group of labels that the vector has."""
    names = frozenset(node.labels)
    groups: dict[Labels, list[float]] = {}
    for point in vector:
        key = leaving_out(point.labels, names) if node.without else keeping(point.labels, names)
        groups.setdefault(key, []).append(point.value)
    make = _MAKE[node.op]
    return [Point(labels, make(values)) for labels, values in groups.items()]


def _sum(values: list[float]) -> float:
    total = values[0]
    for value in values[1:]:
        total += value
    return total


def _mean(values: list[float]) -> float:
    mean = values[0]
    for count, value in enumerate(values[1:], 2):
        if (
            math.isinf(mean)
            and not math.isnan(value)
            and (not math.isinf(value) or (mean > 0) == (value > 0))
        ):
            continue
        # Both divided first, as Prometheus does, so that their difference cannot overflow.
        mean += value / count - mean / count
    return mean


def _max(values: list[float]) -> float:
    most = values[0]
    for value in values[1:]:
        if most < value or most != most:
            most = value
    return most


def _min(values: list[float]) -> float:
    least = values[0]
    for value in values[1:]:
        if least > value or least != least:
            least = value
    return least


_MAKE: dict[str, Callable[[list[float]], float]] = {
    "sum": _sum,
    "avg": _mean,
    "max": _max,
    "min": _min,
    "count": lambda values: float(len(values)),
}
