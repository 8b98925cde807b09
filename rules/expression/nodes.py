"""An expression as a tree of our own: what was checked, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from collectors.sample import Labels
from rules.readings import Matcher

ArithmeticOp = Literal["+", "-", "*", "/", "%", "^"]
CompareOp = Literal["==", "!=", ">", "<", ">=", "<="]
SetOp = Literal["and", "or", "unless"]
AggregateOp = Literal["sum", "avg", "max", "min", "count"]
RangeFunction = Literal[
    "rate",
    "increase",
    "changes",
    "deriv",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "sum_over_time",
    "count_over_time",
    "last_over_time",
    "quantile_over_time",
]
Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar."""

    value: float


@dataclass(frozen=True, slots=True)
class Time:
    """The time of the evaluation in Unix seconds, a scalar."""


@dataclass(frozen=True, slots=True)
class Selector:
    """The newest reading of each series of a name."""

    name: str
    matchers: tuple[Matcher, ...]
    offset_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RangeCall:
    """A function over the readings of a selector in a range."""

    function: RangeFunction
    selector: Selector
    range_seconds: float
    parameter: Node | None = None


@dataclass(frozen=True, slots=True)
class HistogramQuantile:
    """The quantile of each histogram of which the vector has the buckets."""

    quantile: Node
    vector: Node


@dataclass(frozen=True, slots=True)
class Absent:
    """One with these labels where the vector is empty."""

    vector: Node
    labels: Labels


@dataclass(frozen=True, slots=True)
class VectorOf:
    """A scalar as a vector of one element without labels."""

    scalar: Node


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Elements made one per group; `labels` are kept, or left out where `without`."""

    op: AggregateOp
    vector: Node
    labels: tuple[str, ...] = ()
    without: bool = False


@dataclass(frozen=True, slots=True)
class Negate:
    """The unary minus."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Matching:
    """How elements of two vectors find each other.

    `on` compares only `labels`, else all others. `many` is the side of which several may match one of the other,
    and `include` are labels taken from that one.
    """

    labels: tuple[str, ...] = ()
    on: bool = False
    many: Side | None = None
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic or a comparison; `as_bool` gives 0 and 1 where a comparison would else filter."""

    op: ArithmeticOp | CompareOp
    left: Node
    right: Node
    matching: Matching = Matching()
    as_bool: bool = False


@dataclass(frozen=True, slots=True)
class SetOperation:
    """Elements of two vectors kept or left out by whether the other has their like."""

    op: SetOp
    left: Node
    right: Node
    matching: Matching = Matching()


Node = (
    Number
    | Time
    | Selector
    | RangeCall
    | HistogramQuantile
    | Absent
    | VectorOf
    | Aggregate
    | Negate
    | Binary
    | SetOperation
)


def is_scalar(node: Node) -> bool:
    """Whether the node's value is one number and not a vector."""
    if isinstance(node, Number | Time):
        return True
    if isinstance(node, Negate):
        return is_scalar(node.operand)
    return isinstance(node, Binary) and is_scalar(node.left) and is_scalar(node.right)


def absent_labels(node: Node) -> Labels:
    """The labels that `absent` gives: those that the selector asks for with `=`, each asked for once."""
    if not isinstance(node, Selector):
        return ()
    found: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in node.matchers:
        if matcher.op == "=" and matcher.label not in seen:
            found[matcher.label] = matcher.value
            seen.add(matcher.label)
        else:
            found.pop(matcher.label, None)
    return tuple(sorted((label, value) for label, value in found.items() if value))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    if isinstance(node, RangeCall):
        return (node.selector,) if node.parameter is None else (node.parameter, node.selector)
    if isinstance(node, HistogramQuantile):
        return (node.quantile, node.vector)
    if isinstance(node, Absent | Aggregate):
        return (node.vector,)
    if isinstance(node, VectorOf):
        return (node.scalar,)
    if isinstance(node, Negate):
        return (node.operand,)
    if isinstance(node, Binary | SetOperation):
        return (node.left, node.right)
    return ()
