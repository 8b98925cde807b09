"""Replay of a recorded trace: the rules evaluated over it, step by step, in no time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rules.alert import Alert
from rules.evaluator import Evaluator
from rules.readings import Readings
from rules.rule import RuleGroup

MOST_STEPS = 100_000
"""A week at intervals of six seconds; more is a mistake in the trace's times."""


@dataclass(frozen=True, slots=True)
class Step:
    """One evaluation: its time, what entered another state in it, every alert after it, rules that failed and why."""

    at: float
    changes: tuple[Alert, ...]
    alerts: tuple[Alert, ...]
    errors: tuple[tuple[str, str], ...]

    def firing(self, rule: str) -> tuple[Alert, ...]:
        """The alerts of a rule that fire."""
        return tuple(one for one in self.alerts if one.rule == rule and one.state == "firing")


def replay(
    groups: Sequence[RuleGroup], readings: Readings, until: float, interval: float, start: float = 0.0
) -> Iterator[Step]:
    """Evaluate every group each `interval` seconds from `start` to `until`, whatever intervals the groups have.

    Raises `ValueError` for more steps than anybody means.
    """
    if interval <= 0:
        raise ValueError(f"the evaluation interval must be over 0 s, not {interval:g} s")
    steps = int((until - start) / interval + 1e-9) + 1
    if steps > MOST_STEPS:
        raise ValueError(f"{steps} evaluations, over {MOST_STEPS}: take a longer interval or a shorter trace")
    evaluator = Evaluator(groups)
    for number in range(steps):
        at = start + number * interval
        came = evaluator.evaluate(readings, at)
        errors = tuple(
            (one.rule, one.last_error)
            for group in evaluator.health()
            for one in group.rules
            if one.last_error is not None
        )
        yield Step(at, came.changes, evaluator.alerts(), errors)
