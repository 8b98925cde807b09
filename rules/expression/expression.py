"""A parsed expression, ready to be evaluated over readings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rules.expression.evaluate import evaluate
from rules.expression.limits import LOOKBACK_SECONDS, Budget
from rules.expression.nodes import Node, RangeCall, Selector, children, is_scalar
from rules.expression.vector import without_name
from rules.readings import Point, Readings


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression; `names` are the metrics it reads, `reach_seconds` is how far back from now it looks.

    `past_names` are those of them that it reads over a range, or with an offset.
    """

    text: str
    root: Node
    names: frozenset[str] = field(init=False)
    past_names: frozenset[str] = field(init=False)
    reach_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        nodes = list(_all(self.root))
        names = frozenset(node.name for node in nodes if isinstance(node, Selector))
        past = {node.selector.name for node in nodes if isinstance(node, RangeCall)}
        past |= {node.name for node in nodes if isinstance(node, Selector) and node.offset_seconds > 0.0}
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "past_names", frozenset(past))
        object.__setattr__(self, "reach_seconds", max(map(_reach, nodes)))

    @property
    def is_scalar(self) -> bool:
        """Whether it is one number: as a condition it always holds, as in Prometheus."""
        return is_scalar(self.root)

    def evaluate(self, readings: Readings, now: float) -> list[Point]:
        """The elements of the vector that it is at `now` (Unix seconds), without metric names.

        A scalar is one point without labels. Raises `EvaluationError`.
        """
        return [Point(without_name(point.labels), point.value) for point in self.named(readings, now)]

    def named(self, readings: Readings, now: float) -> list[Point]:
        """The same with the label `__name__` where Prometheus leaves it in the answer to a query."""
        found = evaluate(self.root, readings, now, Budget())
        return [Point((), found)] if isinstance(found, float) else found


def _all(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _all(child)


def _reach(node: Node) -> float:
    if isinstance(node, RangeCall):
        return node.selector.offset_seconds + node.range_seconds
    return node.offset_seconds + LOOKBACK_SECONDS if isinstance(node, Selector) else 0.0
