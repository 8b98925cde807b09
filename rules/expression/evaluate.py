"""The value of a tree at one time, as Prometheus 2 computes it."""

from __future__ import annotations

import math

from rules.expression.aggregate import aggregate
from rules.expression.arithmetic import compute, holds, is_comparison
from rules.expression.functions import FUNCTIONS
from rules.expression.histogram import histogram_quantiles
from rules.expression.limits import LOOKBACK_SECONDS, Budget
from rules.expression.match import combine_vectors, set_operation
from rules.expression.nodes import (
    Absent,
    Aggregate,
    Binary,
    HistogramQuantile,
    Negate,
    Node,
    Number,
    RangeCall,
    Selector,
    SetOperation,
    Time,
    VectorOf,
)
from rules.expression.rate import Window
from rules.expression.vector import Value, Vector, unique, with_name, without_name
from rules.readings import Point, Readings

_HALF_MILLISECOND = 0.0005
"""Prometheus 2 takes readings at the start of a range too, and counts time in whole milliseconds."""


def evaluate(node: Node, readings: Readings, now: float, budget: Budget) -> Value:
    """The scalar or vector that a tree is at `now`; raises `EvaluationError`."""
    return _Evaluation(readings, now, budget).value(node)


class _Evaluation:
    def __init__(self, readings: Readings, now: float, budget: Budget) -> None:
        self._readings = readings
        self._now = now
        self._budget = budget

    def value(self, node: Node) -> Value:
        """The value of any node."""
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Time):
            return self._now
        if isinstance(node, Binary):
            return self._binary(node)
        if isinstance(node, Negate):
            value = self.value(node.operand)
            if isinstance(value, float):
                return -value
            return unique(Point(without_name(point.labels), -point.value) for point in value)
        found = self._made(node)
        self._budget.take_elements(len(found))
        return found

    def _made(self, node: Node) -> Vector:
        if isinstance(node, Selector):
            return self._newest(node)
        if isinstance(node, RangeCall):
            return self._over_range(node)
        if isinstance(node, Aggregate):
            return aggregate(node, self._vector(node.vector))
        if isinstance(node, SetOperation):
            return unique(set_operation(node, self._vector(node.left), self._vector(node.right)))
        if isinstance(node, HistogramQuantile):
            return unique(histogram_quantiles(self._scalar(node.quantile), self._vector(node.vector)))
        if isinstance(node, Absent):
            return [] if self._vector(node.vector) else [Point(node.labels, 1.0)]
        if isinstance(node, VectorOf):
            return [Point((), self._scalar(node.scalar))]
        raise TypeError(f"{type(node).__name__} is no vector")

    def _vector(self, node: Node) -> Vector:
        found = self.value(node)
        if isinstance(found, float):
            raise TypeError(f"{type(node).__name__} is a scalar where the parser lets only vectors be")
        return found

    def _scalar(self, node: Node) -> float:
        found = self.value(node)
        if not isinstance(found, float):
            raise TypeError(f"{type(node).__name__} is a vector where the parser lets only scalars be")
        return found

    def _newest(self, node: Selector) -> Vector:
        end = self._now - node.offset_seconds
        start = end - LOOKBACK_SECONDS - _HALF_MILLISECOND
        found: Vector = []
        for track in self._readings.tracks(node.name, node.matchers, start, end):
            self._budget.take_points(1)
            if not track.ended and len(track.values):
                found.append(Point(with_name(node.name, track.labels), track.values[-1]))
        return found

    def _over_range(self, node: RangeCall) -> Vector:
        parameter = math.nan if node.parameter is None else self._scalar(node.parameter)
        function = FUNCTIONS[node.function]
        end = self._now - node.selector.offset_seconds
        start = end - node.range_seconds
        found: Vector = []
        tracks = self._readings.tracks(
            node.selector.name, node.selector.matchers, start - _HALF_MILLISECOND, end
        )
        for track in tracks:
            self._budget.take_points(1 + len(track.times))
            if not len(track.times):
                continue
            value = function(Window(track.times, track.values, start, end), parameter)
            if value is not None:
                labels = track.labels
                if node.function == "last_over_time":
                    labels = with_name(node.selector.name, labels)
                found.append(Point(labels, value))
        return unique(found)

    def _binary(self, node: Binary) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, float) and isinstance(right, float):
            if is_comparison(node.op):
                return 1.0 if holds(node.op, left, right) else 0.0
            return compute(node.op, left, right)
        if isinstance(left, float):
            assert isinstance(right, list)
            found = _with_scalar(node, right, left, scalar_first=True)
        elif isinstance(right, float):
            found = _with_scalar(node, left, right, scalar_first=False)
        else:
            found = combine_vectors(node, left, right)
        self._budget.take_elements(len(found))
        return unique(found)


def _with_scalar(node: Binary, vector: Vector, scalar: float, *, scalar_first: bool) -> Vector:
    found: Vector = []
    for point in vector:
        left, right = (scalar, point.value) if scalar_first else (point.value, scalar)
        if not is_comparison(node.op):
            found.append(Point(without_name(point.labels), compute(node.op, left, right)))
        elif node.as_bool:
            found.append(Point(without_name(point.labels), float(holds(node.op, left, right))))
        elif holds(node.op, left, right):
            found.append(point)
    return found
