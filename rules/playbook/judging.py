"""Whether a condition holds, does not, or cannot be known, with the figures that say so."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from collectors.sample import Labels
from rules.expression import EvaluationError, Expression, ExpressionError, parse
from rules.playbook.variables import Template, VariableError
from rules.readings import Matcher, Readings, Track

MOST_FIGURES = 6
LONGEST_NAME = 120
Verdict = Literal["yes", "no", "unknown"]
_OWN_SENSE_OF_ABSENCE = re.compile(r"\b(?:or|unless|absent|absent_over_time)\b")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a condition came to. `newest` is the time of the newest reading it looked at, None if it looked at none."""

    verdict: Verdict
    figures: Mapping[str, float | str | None] = field(default_factory=dict)
    newest: float | None = None


class Judge:
    """Fills in a run's variables, and evaluates."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._parsed: dict[str, Expression] = {}

    def judge(self, condition: str, readings: Readings, now: float) -> Judgement:
        """Judge a condition. Nothing to read is unknown, and so is what cannot be evaluated; neither is a no."""
        watched = _Watched(readings)
        try:
            points = self._expression(condition).evaluate(watched, now)
        except (VariableError, ExpressionError, EvaluationError) as error:
            return Judgement("unknown", {"error": str(error)})
        values = {
            _called("value", point.labels): point.value for point in points if not math.isnan(point.value)
        }
        figures = dict(list({**values, **watched.seen}.items())[:MOST_FIGURES])
        if values:
            return Judgement("yes", figures, watched.newest)
        return Judgement("unknown" if watched.misses(condition) else "no", figures, watched.newest)

    def told(self, condition: str) -> str:
        """The condition as it is judged, or as it is written where a variable has no value."""
        try:
            return Template(condition).fill(self._values)
        except VariableError:
            return condition

    def figures(self, wanted: Mapping[str, str], readings: Readings, now: float) -> dict[str, float | None]:
        """The figures that a step asks for; of several series the first, None for what cannot be known."""
        found: dict[str, float | None] = {}
        for name, expression in wanted.items():
            try:
                points = self._expression(expression).evaluate(readings, now)
            except (VariableError, ExpressionError, EvaluationError):
                points = []
            value = points[0].value if points else math.nan
            found[name] = value if math.isfinite(value) else None
        return found

    def _expression(self, condition: str) -> Expression:
        if condition not in self._parsed:
            self._parsed[condition] = parse(Template(condition).fill(self._values))
        return self._parsed[condition]


class _Watched:
    """Readings that remember what was looked at."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self.seen: dict[str, float] = {}
        self.newest: float | None = None
        self._asked = 0
        self._found = 0

    def tracks(self, name: str, matchers: Sequence[Matcher], start: float, end: float) -> Iterable[Track]:
        self._asked += 1
        return self._look(name, self._readings.tracks(name, matchers, start, end))

    def _look(self, name: str, tracks: Iterable[Track]) -> Iterator[Track]:
        found = False
        for track in tracks:
            if len(track.times) and not track.ended:
                self._found += not found
                found = True
                newest = track.times[-1]
                self.newest = newest if self.newest is None else max(self.newest, newest)
                value = track.values[-1]
                if len(self.seen) < MOST_FIGURES and math.isfinite(value):
                    self.seen[_called(name, track.labels)] = value
            yield track

    def misses(self, condition: str) -> bool:
        """Whether what it needs is not there: any of its series, or all of them where their absence has a sense."""
        if _OWN_SENSE_OF_ABSENCE.search(condition):
            return self._found == 0 and self._asked > 0
        return self._found < self._asked


def _called(name: str, labels: Labels) -> str:
    inside = ",".join(f"{key}={value}" for key, value in labels)
    text = f"{name}{{{inside}}}" if inside else name
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
