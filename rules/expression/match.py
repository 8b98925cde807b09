"""Two vectors: which element of the one meets which of the other, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable

from collectors.sample import Labels
from rules.expression.arithmetic import compute, holds, is_comparison
from rules.expression.errors import EvaluationError
from rules.expression.nodes import Binary, Matching, SetOperation
from rules.expression.vector import NAME, Vector, keeping, leaving_out, shown, without_name
from rules.readings import Point


def _signature(matching: Matching) -> Callable[[Labels], Labels]:
    names = frozenset(matching.labels)
    return (
        (lambda labels: keeping(labels, names))
        if matching.on
        else (lambda labels: leaving_out(labels, names))
    )


def set_operation(node: SetOperation, left: Vector, right: Vector) -> Vector:
    """`and`, `or` and `unless`."""
    signature = _signature(node.matching)
    if node.op == "or":
        if not left or not right:
            return left or right
        present = {signature(point.labels) for point in left}
        return left + [point for point in right if signature(point.labels) not in present]
    present = {signature(point.labels) for point in right}
    wanted = node.op == "and"
    return [point for point in left if (signature(point.labels) in present) is wanted]


def combine_vectors(node: Binary, left: Vector, right: Vector) -> Vector:
    """Arithmetic and comparisons; raises `EvaluationError` where the elements do not pair as the operator says."""
    matching = node.matching
    if not left or not right:
        return []
    swapped = matching.many == "right"
    many, one = (right, left) if swapped else (left, right)
    ones = _by_signature(one, matching, "left" if swapped else "right")
    signature = _signature(matching)
    made: dict[Labels, set[Labels]] = {}
    found: Vector = []
    for point in many:
        key = signature(point.labels)
        other = ones.get(key)
        if other is None:
            continue
        first, second = (other.value, point.value) if swapped else (point.value, other.value)
        if not is_comparison(node.op):
            value = compute(node.op, first, second)
        elif node.as_bool:
            value = float(holds(node.op, first, second))
        elif holds(node.op, first, second):
            value = first
        else:
            continue
        labels = _result_labels(node, point.labels, other.labels)
        before = made.setdefault(key, set())
        if matching.many is None and before:
            raise EvaluationError(
                f"several elements on the left match {shown(key)}: "
                "say group_left or group_right, or match on more labels"
            )
        if labels in before:
            raise EvaluationError(
                f"several results have the labels {shown(labels)}: group on labels that tell them apart"
            )
        before.add(labels)
        found.append(Point(labels, value))
    return found


def _by_signature(one: Vector, matching: Matching, side: str) -> dict[Labels, Point]:
    signature = _signature(matching)
    found: dict[Labels, Point] = {}
    for point in one:
        key = signature(point.labels)
        if key in found:
            raise EvaluationError(
                f"many-to-many matching: {shown(found[key].labels)} and {shown(point.labels)} on the {side} both match "
                f"{shown(key)}"
            )
        found[key] = point
    return found


def _result_labels(node: Binary, labels: Labels, other: Labels) -> Labels:
    matching = node.matching
    if not is_comparison(node.op) or node.as_bool:
        labels = without_name(labels)
    if matching.many is None:
        if matching.on:
            return keeping(labels, matching.labels)
        return tuple(pair for pair in labels if pair[0] not in matching.labels)
    if not matching.include:
        return labels
    given = dict(other)
    made = {name: value for name, value in labels if name not in matching.include}
    made.update({name: given[name] for name in matching.include if given.get(name)})
    if node.as_bool:
        made.pop(NAME, None)
    return tuple(sorted(made.items()))
