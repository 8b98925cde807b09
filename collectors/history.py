"""What was read lately: bounded memory, windowed rates, means and quantiles.

Counters are stored with their resets already added up, so that a rate over a window that holds an engine
restart is the sum of what was counted before and after. Several series of one name (devices, engine ranks)
are combined as the METRICS table says unless labels pick one.

Series with the label `server` are of engines that are watched beside the tuned one. They are seen only by who
asks for that label, so that a reader who asks for none reads the tuned engine and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import zip_longest
from operator import attrgetter
from typing import Literal

import numpy as np

from collectors.combine import combine_distributions, combine_values, quantile
from collectors.metrics import METRICS, Metric
from collectors.sample import SERVER, Distribution, Labels, Sample
from collectors.series import CLOCK_STEP_SECONDS, Series
from collectors.tiers import DETAIL_TIERS, TIERS, Floats, Tier

Key = tuple[str, Labels]
_TIME = attrgetter("time")


@dataclass(slots=True)
class _Given:
    """A series as one source gave it last: that reading, and in which `add`."""

    series: Series
    sample: Sample
    turn: int = 0


@dataclass(slots=True)
class _Source:
    """What a source gives at present, in which order, and the time of its newest reading ever."""

    newest: float = -math.inf
    given: dict[Key, _Given] = field(default_factory=dict)
    order: list[_Given] = field(default_factory=list)
    turn: int = 0


class History:
    """The readings of every source, by canonical name.

    `max_series` bounds the memory: at the limit the series that ended longest ago makes room, and if none has
    ended a new one is refused and counted in `refused`. A series that no source renewed for `stale_seconds`
    is not live. `max_details` is the same limit for the metrics marked `detail`, whose series are kept coarse.
    """

    def __init__(
        self,
        max_series: int = 4096,
        *,
        max_details: int = 12288,
        stale_seconds: float = 300.0,
        tiers: Sequence[Tier] = TIERS,
    ) -> None:
        if max_series < 1:
            raise ValueError(f"max_series is at least 1, got {max_series}")
        self._limits = {False: max_series, True: max_details}
        self._stale_seconds = stale_seconds
        self._tiers = tiers
        self._by_name: dict[str, dict[Labels, Series]] = {}
        self._sources: dict[str, _Source] = {}
        self._counts = {False: 0, True: 0}
        self._newest = -math.inf
        self._full: set[bool] = set()
        self.refused = 0

    def __len__(self) -> int:
        return sum(self._counts.values())

    def add(self, samples: Iterable[Sample], source: str | None = None) -> None:
        """Take readings in; with `source`, the series which it gave before and no source gives now are ended.

        A source may give a reading again with the time it was made at: that renews its series, and changes nothing
        in one that another source has read since. A value that is not a number is no reading. Raises ValueError for
        a name that METRICS does not have.
        """
        self._full.clear()
        at = _Source(math.inf) if source is None else self._sources.setdefault(source, _Source())
        readings = [one for one in samples if one.value == one.value or isinstance(one.value, Distribution)]
        newest = max(map(_TIME, readings), default=-math.inf)
        self._follow_clock(newest)
        # Of a series that the source does not give at present only its newest reading tells.
        all_set_back = newest < at.newest - CLOCK_STEP_SECONDS
        at.turn += 1
        order: list[_Given] = []
        for sample, last in zip_longest(readings, at.order[: len(readings)]):
            given = last
            # Most sources give the same series in the same order, and to hash their labels is most of the work.
            if last is None or last.sample.labels is not sample.labels or last.sample.name is not sample.name:
                given = at.given.get((sample.name, sample.labels))
            if given is None or given.series.dropped:
                series = self._take(sample, all_set_back)
                if series is None:
                    continue
                given = at.given[sample.name, sample.labels] = _Given(series, sample)
            elif given.sample is not sample:
                back = given.turn != at.turn and sample.time < given.sample.time - CLOCK_STEP_SECONDS
                given.series.add(sample, back)
                given.sample = sample
            given.series.renewed = self._newest
            if given.turn != at.turn:
                given.turn = at.turn
                order.append(given)
        at.order = order
        if source is not None:
            if len(order) < len(at.given):
                self._end(at, [key for key, given in at.given.items() if given.turn != at.turn])
            if newest > -math.inf:
                at.newest = newest

    def end(self, source: str) -> None:
        """Say that a source could not be read: what it alone gave is not live until it gives it again."""
        at = self._sources.get(source)
        if at is not None:
            self._end(at, list(at.given))
            at.order = []

    def source_times(self) -> dict[str, float]:
        """Time of the newest sample each source ever gave."""
        return {name: at.newest for name, at in self._sources.items() if at.newest > -math.inf}

    def latest(self, name: str, labels: Labels | None = None) -> Sample | None:
        """The last reading of the live series that carry `labels` (all if None), combined; else None.

        The time is that of the oldest reading in it, the labels are those all of them share.
        """
        live = [series.last for series in self._matching(name, labels) if self._live(series)]
        if not live:
            return None
        if len(live) == 1:
            return live[0]
        shared = set(live[0].labels).intersection(*(sample.labels for sample in live))
        value = _combine([sample.value for sample in live], METRICS[name])
        return Sample(name, value, min(sample.time for sample in live), tuple(sorted(shared)))

    def series(self, name: str, labels: Labels | None = None) -> list[Labels]:
        """Label sets of the live series of a name that carry `labels` (the tuned engine's and the devices' if None)."""
        return [key for key, series in self._carrying(name, labels) if self._live(series)]

    def every_series(self, name: str) -> list[Labels]:
        """Label sets of the live series of a name, those of the engines that are watched beside the tuned one too."""
        of_name = self._by_name.get(_metric(name).name, {})
        return [key for key in sorted(of_name) if self._live(of_name[key])]

    def last_samples(self, now: float | None = None) -> list[Sample]:
        """The last reading of every live series in the order of METRICS; `now` leaves out stale ones too."""
        found: list[Sample] = []
        for name in METRICS:
            of_name = self._by_name.get(name, {})
            found.extend(of_name[key].last for key in sorted(of_name) if self._live(of_name[key], now))
        return found

    def rate(self, name: str, now: float, window: float, labels: Labels | None = None) -> float | None:
        """Growth per second of a counter (or a histogram's count) in the last `window` seconds.

        None if no matching series was read twice in the window. Raises ValueError for a gauge.
        """
        if _metric(name).kind == "gauge":
            raise ValueError(f"{name} is a gauge: it has no rate")
        rates = [
            grown[-1] / seconds
            for series in self._matching(name, labels)
            if (found := series.increase(now - window, now)) is not None
            for grown, seconds in [found]
        ]
        return sum(rates) if rates else None

    def distribution(
        self, name: str, now: float, window: float, labels: Labels | None = None
    ) -> Distribution | None:
        """The histogram of what was observed in the last `window` seconds; None if nothing is known."""
        if _metric(name).kind != "histogram":
            raise ValueError(f"{name} is a {METRICS[name].kind}, not a histogram")
        parts = [
            part
            for series in self._matching(name, labels)
            if (part := series.grown(now - window, now)) is not None
        ]
        return combine_distributions(parts) if parts else None

    def quantile(
        self, name: str, q: float, now: float, window: float, labels: Labels | None = None
    ) -> float | None:
        """The q-quantile of a histogram in the last `window` seconds; None without observations."""
        found = self.distribution(name, now, window, labels)
        return quantile(found, q) if found is not None else None

    def mean(self, name: str, now: float, window: float, labels: Labels | None = None) -> float | None:
        """Mean observation of a histogram, or mean reading of a gauge, in the last `window` seconds."""
        kind = _metric(name).kind
        if kind == "counter":
            raise ValueError(f"{name} is a counter: ask for its rate")
        if kind == "histogram":
            found = self.distribution(name, now, window, labels)
            return found.sum / found.count if found is not None and found.count > 0 else None
        values = [value for _, value in self.range(name, now - window, now, labels)]
        return sum(values) / len(values) if values else None

    def range(
        self, name: str, start: float, end: float, labels: Labels | None = None
    ) -> list[tuple[float, float]]:
        """Times and values in [start, end]: a gauge's value, else what was counted since first seen.

        Older parts are coarser (one reading in 10 s, then one a minute).
        """
        metric = _metric(name)
        found = [series.points(start, end) for series in self._matching(name, labels)]
        if len(found) == 1:
            return found[0]
        by_time: dict[float, list[float]] = {}
        for points in found:
            for time, value in points:
                by_time.setdefault(time, []).append(value)
        return [(time, combine_values(by_time[time], metric.combine)) for time in sorted(by_time)]

    def column(
        self, name: str, labels: Labels, start: float, end: float, part: Literal["value", "sum"] = "value"
    ) -> tuple[Floats, Floats]:
        """Times and values in [start, end] of the one series with exactly these labels; empty if unknown.

        Values are those of `range`; `part` "sum" is a histogram's sum of what was observed since first seen.
        """
        metric = _metric(name)
        if part == "sum" and metric.kind != "histogram":
            raise ValueError(f"{name} is a {metric.kind}: it has no sum")
        series = self._by_name.get(name, {}).get(labels)
        if series is None:
            return np.empty(0), np.empty(0)
        return series.column(start, end, -2 if part == "sum" else -1)

    def held_series(self, name: str, now: float) -> list[tuple[Series, bool]]:
        """Every series of a name, in the order of their labels, and whether it is live at `now`; none if unknown."""
        of_name = self._by_name.get(name, {})
        return [(of_name[key], self._live(of_name[key], now)) for key in sorted(of_name)]

    def held_points(self) -> int:
        """Rows held in all tiers, for the test of the memory bound."""
        return sum(series.held() for of_name in self._by_name.values() for series in of_name.values())

    def _take(self, sample: Sample, clock_was_set_back: bool) -> Series | None:
        metric = _metric(sample.name)
        of_name = self._by_name.setdefault(sample.name, {})
        series = of_name.get(sample.labels)
        if series is not None:
            series.add(sample, clock_was_set_back)
            series.renewed = self._newest
            return series
        detail = metric.detail
        if self._counts[detail] >= self._limits[detail] and not self._make_room(detail):
            self.refused += 1
            return None
        tiers = DETAIL_TIERS if detail else self._tiers
        series = of_name[sample.labels] = Series(metric, sample, tiers, self._newest)
        self._counts[detail] += 1
        return series

    def _make_room(self, detail: bool) -> bool:
        if detail in self._full:
            return False  # no series ends within one `add`, so that one search is enough for all of it
        gone = [
            (series.last.time, name, key)
            for name, of_name in self._by_name.items()
            if METRICS[name].detail == detail
            for key, series in of_name.items()
            if not self._live(series)
        ]
        if not gone:
            self._full.add(detail)
            return False
        # A tenth of the room at once: a churn of series must not cost a search each.
        for _, name, key in sorted(gone)[: max(1, self._limits[detail] // 10)]:
            self._by_name[name].pop(key).dropped = True
            self._counts[detail] -= 1
        return True

    def _end(self, at: _Source, keys: Iterable[Key]) -> None:
        for key in keys:
            series = at.given.pop(key).series
            series.ended = not any(key in other.given for other in self._sources.values())

    def _follow_clock(self, newest: float) -> None:
        if newest > self._newest or -math.inf < newest < self._newest - self._stale_seconds:
            self._newest = newest

    def _live(self, series: Series, now: float | None = None) -> bool:
        newest = self._newest if now is None else max(now, self._newest)
        return not series.ended and newest - series.renewed <= self._stale_seconds

    def _matching(self, name: str, labels: Labels | None) -> list[Series]:
        _metric(name)
        of_name = self._by_name.get(name, {})
        if labels is not None and labels in of_name:
            return [of_name[labels]]
        return [series for _, series in self._carrying(name, labels)]

    def _carrying(self, name: str, labels: Labels | None) -> list[tuple[Labels, Series]]:
        """The series that carry all of `labels`, in order; those of another server only where it is asked for."""
        _metric(name)
        wanted = set(labels or ())
        own = all(label != SERVER for label, _ in wanted)
        return [
            (key, series)
            for key, series in sorted(self._by_name.get(name, {}).items(), key=lambda item: item[0])
            if wanted.issubset(key) and not (own and series.of_another_server)
        ]


def _metric(name: str) -> Metric:
    metric = METRICS.get(name)
    if metric is None:
        near = get_close_matches(name, METRICS, n=1)
        raise ValueError(f"no metric {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return metric


def _combine(values: Sequence[float | Distribution], metric: Metric) -> float | Distribution:
    distributions = [value for value in values if isinstance(value, Distribution)]
    if distributions:
        return combine_distributions(distributions)
    numbers = [value for value in values if not isinstance(value, Distribution)]
    return combine_values(numbers, metric.combine)
