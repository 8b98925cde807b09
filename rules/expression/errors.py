"""What can be wrong with an expression: as it is written, and as it is evaluated."""

from __future__ import annotations

_SHOWN = 30


class ExpressionError(Exception):
    """The text is not an expression that is understood here; says what, where, and what would be.

    `position` counts characters from 0, None where the fault has no one place.
    """

    def __init__(self, problem: str, text: str = "", position: int | None = None) -> None:
        self.problem = problem
        self.position = position
        where = ""
        if position is not None:
            near = text[position : position + _SHOWN]
            more = "..." if len(text) > position + _SHOWN else ""
            where = f", at character {position + 1}: {near + more!r}" if near else ", at its end"
        super().__init__(problem + where)


class EvaluationError(Exception):
    """The expression has no value with these readings: series that do not pair, or too much work."""
