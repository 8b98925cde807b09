"""Readings written down as series of values: the notation of `promtool test rules`, for `rules test` and for tests.

`values: '0+10x3 _ 5x2 stale 1'` is 0 10 20 30, one that is missing, 5 5 5, the mark that the series ended, and 1.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectors.sample import Labels
from rules.expression.errors import ExpressionError
from rules.expression.nodes import Selector
from rules.expression.parse import parse
from rules.label_match import selecting
from rules.readings import Matcher, Track

MOST_VALUES = 1_000_000
"""Values that a trace may have in all; a day of readings in each second is 86,400 for a series."""

_NUMBER = r"(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[Ii][Nn][Ff]|[Nn][Aa][Nn])"
_VALUE = re.compile(rf"(?P<first>[+-]?{_NUMBER})(?:(?P<step>[+-]{_NUMBER})?x(?P<times>\d+))?", re.ASCII)
_MISSING = re.compile(r"_(?:x(?P<times>\d+))?", re.ASCII)


class TraceError(ValueError):
    """A trace is not written as it should be; the text says what and where."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A series with its readings in order of time (Unix seconds); None is the mark that the series ended there."""

    name: str
    labels: Labels
    times: Sequence[float]
    values: Sequence[float | None]


class TraceReadings:
    """The `Readings` of a trace: nothing later than what is asked for is ever seen."""

    def __init__(self, series: Iterable[Recorded]) -> None:
        self._by_name: dict[str, list[_Series]] = {}
        self.end = 0.0
        """Time of the last reading."""
        for one in series:
            self._by_name.setdefault(one.name, []).append(_Series(one))
            if one.times:
                self.end = max(self.end, one.times[-1])

    @classmethod
    def from_input_series(
        cls, given: Iterable[Mapping[str, object]], interval_seconds: float, start: float = 0.0
    ) -> TraceReadings:
        """Read promtool's `input_series`, the first value at `start`; raises `TraceError`."""
        recorded: list[Recorded] = []
        room = MOST_VALUES
        for number, one in enumerate(given, 1):
            series, values = one.get("series"), one.get("values")
            if not isinstance(series, str) or not isinstance(values, str | int | float):
                raise TraceError(f"input_series {number} needs `series` and `values` as text")
            name, labels = read_series(series)
            try:
                read = read_values(str(values), room)
            except TraceError as error:
                raise TraceError(f"values of {series}: {error}") from error
            room -= len(read)
            present = [
                (start + place * interval_seconds, value) for place, value in enumerate(read) if value != ()
            ]
            times = [time for time, _ in present]
            kept = [value for _, value in present if not isinstance(value, tuple)]
            recorded.append(Recorded(name, labels, times, kept))
        return cls(recorded)

    def tracks(self, name: str, matchers: Sequence[Matcher], start: float, end: float) -> Iterator[Track]:
        """The series of a name that match, with their readings in (start, end]."""
        selected = selecting(matchers)
        for series in self._by_name.get(name, ()):
            if selected(series.labels):
                yield series.track(start, end)


class _Series:
    """One series, its readings apart from the marks of its ends."""

    def __init__(self, recorded: Recorded) -> None:
        if len(recorded.times) != len(recorded.values):
            raise TraceError(f"{recorded.name}: {len(recorded.times)} times, {len(recorded.values)} values")
        if any(later <= earlier for earlier, later in zip(recorded.times, recorded.times[1:], strict=False)):
            raise TraceError(f"{recorded.name}: its times do not rise")
        self.labels = recorded.labels
        pairs = list(zip(recorded.times, recorded.values, strict=True))
        self._times = [time for time, value in pairs if value is not None]
        self._values = [value for _, value in pairs if value is not None]
        self._ends = [time for time, value in pairs if value is None]

    def track(self, start: float, end: float) -> Track:
        low, high = bisect_right(self._times, start), bisect_right(self._times, end)
        marks = bisect_right(self._ends, end)
        last = self._times[high - 1] if high else None
        ended = marks > 0 and (last is None or self._ends[marks - 1] > last)
        return Track(self.labels, self._times[low:high], self._values[low:high], ended)


def read_series(text: str) -> tuple[str, Labels]:
    """Name and labels of a series as `name{label="value"}`; raises `TraceError`."""
    try:
        root = parse(text).root
    except ExpressionError as error:
        raise TraceError(f"series {text[:100]!r}: {error}") from error
    if not isinstance(root, Selector) or root.offset_seconds or any(one.op != "=" for one in root.matchers):
        raise TraceError(f'series {text[:100]!r} is not a name with labels, as in x{{npu="0"}}')
    labels = {matcher.label: matcher.value for matcher in root.matchers if matcher.value}
    return root.name, tuple(sorted(labels.items()))


def read_values(text: str, most: int = MOST_VALUES) -> list[float | tuple[()] | None]:
    """The values that the notation stands for: None where the series ended, () where one is missing.

    Raises `TraceError`, also for more than `most` values.
    """
    found: list[float | tuple[()] | None] = []
    for word in text.split():
        if word == "stale":
            found.append(None)
            continue
        if (missing := _MISSING.fullmatch(word)) is not None:
            times = _times(missing["times"], word) if missing["times"] else 1
            _check_room(len(found) + times, most)
            found.extend([()] * times)
            continue
        value = _VALUE.fullmatch(word)
        if value is None:
            raise TraceError(f"{word[:40]!r} is no value: write 1, 0+10x5, 5x3, _, _x3 or stale")
        times = _times(value["times"], word) if value["times"] else 0
        _check_room(len(found) + times + 1, most)
        step, current = float(value["step"] or 0.0), float(value["first"])
        found.append(current)
        for _ in range(times):
            current += step  # one after the other, with promtool's rounding
            found.append(current)
    return found


def _times(text: str, word: str) -> int:
    if len(text) > 7:
        raise TraceError(f"{word[:40]!r} repeats too often")
    return int(text)


def _check_room(values: int, most: int) -> None:
    if values > most:
        raise TraceError(f"more than {MOST_VALUES} values in the trace")
