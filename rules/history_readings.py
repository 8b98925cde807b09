"""The daemon's own `History` as readings: the series that Prometheus has of our page, names and labels alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from collectors.history import History
from collectors.metrics import METRICS
from collectors.metrics.own import PRESENT_NAMES
from collectors.sample import Distribution, Labels, Sample, bound_text, labels
from collectors.series import Series
from collectors.tiers import Floats
from rules.expression import Expression
from rules.label_match import selecting
from rules.readings import Matcher, Track

REPEATED_SECONDS = 60.0
"""A live reading this much older than its source's last word counts as read again then: on the page it still stands."""

_PARTS = ("bucket", "sum", "count")
_SUM, _COUNT = -2, -1


def without_a_past(expression: Expression) -> str | None:
    """Why an expression has nothing to read here: it asks for the past of what has none; None if it does not."""
    names = sorted(expression.past_names & PRESENT_NAMES)
    if not names:
        return None
    return f"no past is kept of {' and '.join(names)}: ask for it without a range and without offset"


class HistoryReadings:
    """Readings of a `History`, those of engines watched beside the tuned one too: they carry the label `server`.

    Counters have no resets in them, and older readings are coarser (see docs/expressions.md). `present` gives samples
    that are made when they are asked for and stand in no history, at the time it is given: each has this one reading.
    """

    def __init__(self, history: History, present: Callable[[float], Iterable[Sample]] | None = None) -> None:
        self._history = history
        self._present = present or self.ages

    def tracks(self, name: str, matchers: Sequence[Matcher], start: float, end: float) -> Iterator[Track]:
        """The series of a name that match, with their readings in (start, end]."""
        selected = selecting(matchers)
        metric = METRICS.get(name)
        if metric is not None and metric.kind != "histogram":
            held = self._history.held_series(name, end)
            if not held:
                yield from self._made(name, selected, end)
            for series, live in held:
                if selected(series.last.labels):
                    yield _track(series, live, series.last.labels, _COUNT, start, end)
            return
        base, _, part = name.rpartition("_")
        metric = METRICS.get(base)
        if metric is None or metric.kind != "histogram" or part not in _PARTS:
            return
        for series, live in self._history.held_series(base, end):
            if part == "bucket":
                yield from _buckets(series, live, selected, start, end)
            elif selected(series.last.labels):
                yield _track(series, live, series.last.labels, _SUM if part == "sum" else _COUNT, start, end)

    def _made(self, name: str, selected: Callable[[Labels], bool], end: float) -> Iterator[Track]:
        for sample in self._present(end):
            if sample.name == name and not isinstance(sample.value, Distribution) and selected(sample.labels):
                yield Track(sample.labels, (end,), (sample.value,))

    def ages(self, now: float) -> Iterator[Sample]:
        """How old each source's newest reading is: what is present where nothing else is given."""
        for source, newest in sorted(self._history.source_times().items()):
            age = max(0.0, now - newest)
            yield Sample("trimtab_sample_age_seconds", age, now, labels(collector=source))


def _buckets(
    series: Series, live: bool, selected: Callable[[Labels], bool], start: float, end: float
) -> Iterator[Track]:
    bounds = series.bounds
    places = list(enumerate(bounds))
    if not bounds or bounds[-1] != math.inf:
        places.append((_COUNT, math.inf))
    for place, bound in places:
        own = tuple(sorted((*series.last.labels, ("le", bound_text(bound)))))
        if selected(own):
            yield _track(series, live, own, place, start, end)


def _track(series: Series, live: bool, own: Labels, place: int, start: float, end: float) -> Track:
    times, values = series.column(np.nextafter(start, math.inf), end, place)
    last = series.last.time
    if live and start < series.renewed <= end and series.renewed - last >= REPEATED_SECONDS:
        times, values = _repeated(series, place, times, values)
    # Of a series that ended the time is not known: it had not where readings come after what is asked for.
    return Track(own, times.tolist(), values.tolist(), ended=not live and last <= end)


def _repeated(series: Series, place: int, times: Floats, values: Floats) -> tuple[Floats, Floats]:
    if not len(values):
        _, values = series.column(series.last.time - REPEATED_SECONDS, series.last.time, place)
        times, values = times[:0], values[-1:]
        return np.array([series.renewed][: len(values)]), values
    return np.append(times, series.renewed), np.append(values, values[-1])
