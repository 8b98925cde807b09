"""What bounds an expression, as it is written and as it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from rules.expression.errors import EvaluationError

LONGEST_TEXT_BYTES = 4096
DEEPEST_BRACKETS = 32
MOST_OPERATORS = 200
DEEPEST_TREE = 64
"""Levels of operators and calls, far below what Python or the parser can descend."""
LONGEST_REACH_SECONDS = 86400.0
"""`History` keeps a day."""

LOOKBACK_SECONDS = 300.0
"""How old the newest reading of a series may be to count as its value, as in Prometheus."""


@dataclass(slots=True)
class Budget:
    """The work that one evaluation may still do; a reading touched costs one point."""

    points: int = 2_000_000
    elements: int = 200_000

    def take_points(self, points: int) -> None:
        """Count readings that are about to be looked at; raises `EvaluationError` when it is too much."""
        self.points -= points
        if self.points < 0:
            raise EvaluationError(
                "it looks at more than 2,000,000 readings: shorten its ranges or narrow its selectors"
            )

    def take_elements(self, elements: int) -> None:
        """Count elements of a vector that was made; raises `EvaluationError` when they are too many."""
        self.elements -= elements
        if self.elements < 0:
            raise EvaluationError("it makes more than 200,000 elements: narrow its selectors")
