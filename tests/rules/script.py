"""Readings that a test makes up as it goes, and rules over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collectors.sample import Labels, labels
from rules.readings import Matcher, Track
from rules.rule import RuleGroup
from rules.rule_file import read

START = 1_700_000_010.0
"""A multiple of 15 s."""
STEP = 15.0


class Script:
    """What each series of `x` reads now; a series that is not there has no reading. `broken` fails when it is asked."""

    def __init__(self, **values: float) -> None:
        self.values: dict[Labels, float] = {labels(n=name): value for name, value in values.items()}
        self.broken: Exception | None = None

    def set(self, **values: float | None) -> None:
        """Change some of them; None takes one away."""
        for name, value in values.items():
            if value is None:
                self.values.pop(labels(n=name), None)
            else:
                self.values[labels(n=name)] = value

    def tracks(self, name: str, matchers: Sequence[Matcher], start: float, end: float) -> Iterable[Track]:
        """One reading of each series, as fresh as can be."""
        if self.broken is not None:
            raise self.broken
        return [Track(own, (end,), (value,)) for own, value in self.values.items()] if name == "x" else []


def rules(
    text: str = "", name: str = "R", expr: str = "x > 0", interval: str = "15s"
) -> tuple[RuleGroup, ...]:
    """One group with one rule; `text` are further keys of it, as YAML in flow style."""
    more = f", {text}" if text else ""
    return read(
        f"groups: [{{name: g, interval: {interval}, rules: [{{alert: {name}, expr: {expr}{more}}}]}}]",
        "t.yaml",
    )
