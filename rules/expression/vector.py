"""Instant vectors: elements with the metric's name among their labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from collectors.sample import Labels
from rules.expression.errors import EvaluationError
from rules.readings import Point

NAME = "__name__"

Vector = list[Point]
Value = float | Vector
"""A scalar, or an instant vector."""


def with_name(name: str, labels: Labels) -> Labels:
    """The labels with the metric's name among them."""
    return tuple(sorted(((NAME, name), *labels)))


def without_name(labels: Labels) -> Labels:
    """The labels without the metric's name."""
    return tuple(pair for pair in labels if pair[0] != NAME)


def keeping(labels: Labels, names: Collection[str]) -> Labels:
    """Only the labels of these names."""
    return tuple(pair for pair in labels if pair[0] in names)


def leaving_out(labels: Labels, names: Collection[str]) -> Labels:
    """The labels without those of these names and without the metric's name."""
    return tuple(pair for pair in labels if pair[0] not in names and pair[0] != NAME)


def shown(labels: Labels) -> str:
    """Labels as a message shows them."""
    return "{" + ", ".join(f'{label}="{value}"' for label, value in labels) + "}"


def unique(elements: Iterable[Point]) -> Vector:
    """The elements as a vector; raises `EvaluationError` when two have the same labels."""
    made = list(elements)
    if len(made) > 1:
        seen: set[Labels] = set()
        for point in made:
            if point.labels in seen:
                raise EvaluationError(f"two elements have the same labels {shown(point.labels)}")
            seen.add(point.labels)
    return made
