"""Operators on two numbers, with what IEEE 754 makes of zero, infinity and what is no number."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from rules.expression.nodes import ArithmeticOp, CompareOp

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


def divide(left: float, right: float) -> float:
    """The quotient; by zero it is infinite, and 0/0 is no number."""
    if right != 0.0:
        return left / right
    if left == 0.0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def remainder(left: float, right: float) -> float:
    """The remainder with the sign of `left`."""
    if right == 0.0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def power(left: float, right: float) -> float:
    """The power; infinite where it is too big, no number where it is not real."""
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(left), np.float64(right)))


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "%": remainder,
    "^": power,
}


def is_comparison(op: ArithmeticOp | CompareOp) -> bool:
    """Whether the operator compares."""
    return op in _COMPARISONS


def compute(op: ArithmeticOp | CompareOp, left: float, right: float) -> float:
    """The value of an arithmetic operator."""
    return _ARITHMETIC[op](left, right)


def holds(op: ArithmeticOp | CompareOp, left: float, right: float) -> bool:
    """Whether a comparison holds; with what is no number only `!=` does."""
    return _COMPARISONS[op](left, right)
