"""One series in the history: a name and a label set, its last reading and its rows in tiers."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.metrics import Metric
from collectors.sample import SERVER, Distribution, Sample
from collectors.tiers import Floats, Rings, Tier

CLOCK_STEP_SECONDS = 5.0
"""A source that gives a reading this much older than the one before tells that the clock was set back."""


class Series:
    """The readings of one name and label set; what a counter counted before a reset is added up.

    `renewed` is when a source last gave it, `ended` says that none does now, `dropped` that it had to make room.
    """

    __slots__ = (
        "_bounds",
        "_carried",
        "_is_gauge",
        "_raw",
        "_rings",
        "_tiers",
        "dropped",
        "ended",
        "is_histogram",
        "last",
        "metric",
        "of_another_server",
        "renewed",
    )

    def __init__(self, metric: Metric, first: Sample, tiers: Sequence[Tier], now: float) -> None:
        self.metric = metric
        self.is_histogram = metric.kind == "histogram"
        self.of_another_server = any(label == SERVER for label, _ in first.labels)
        self._is_gauge = metric.kind == "gauge"
        self._tiers = tiers
        self.ended = self.dropped = False
        self.renewed = now
        self._restart(first)

    def _restart(self, first: Sample) -> None:
        value = first.value
        if isinstance(value, Distribution) is not self.is_histogram:
            raise self._wrong(value)
        self._bounds = value.bounds if isinstance(value, Distribution) else ()
        row = _row(value)
        self._raw = row
        self._carried: tuple[float, ...] | None = None
        self._rings = Rings(len(row), self._is_gauge, self._tiers)
        self._rings.append(first.time, row)
        self.last = first

    def add(self, sample: Sample, clock_was_set_back: bool) -> None:
        """Take a reading in, unless another source has read it since; raises ValueError for the wrong kind."""
        value = sample.value
        if isinstance(value, Distribution) is not self.is_histogram:
            raise self._wrong(value)
        self.ended = False
        if sample.time <= self.last.time:
            if clock_was_set_back and sample.time < self.last.time - CLOCK_STEP_SECONDS:
                self._restart(sample)
            return
        if isinstance(value, Distribution):
            if value.bounds != self._bounds:
                self._restart(sample)
                return
            row = _row(value)
        else:
            row = (value,)
        if not self._is_gauge:
            if _was_reset(self._raw, row) if self.is_histogram else row < self._raw:
                self._carried = _sums(self._carried, self._raw) if self._carried else self._raw
            self._raw = row
            if self._carried is not None:
                row = _sums(row, self._carried)
        self._rings.append(sample.time, row)
        self.last = sample

    @property
    def bounds(self) -> tuple[float, ...]:
        """Upper bounds of a histogram's buckets, as the source gives them; empty for other kinds."""
        return self._bounds

    def _wrong(self, value: float | Distribution) -> ValueError:
        return ValueError(f"{self.metric.name} is a {self.metric.kind}, got {type(value).__name__}")

    def increase(self, start: float, end: float) -> tuple[tuple[float, ...], float] | None:
        """What was counted between the first and last row in [start, end], and the seconds between them."""
        ring = self._rings.reaching(start)
        low, high = ring.span(start, end)
        if high - low < 2:
            return None
        first, last = ring.row(low), ring.row(high - 1)
        grown = tuple(b - a for a, b in zip(first, last, strict=True))
        return grown, ring.time(high - 1) - ring.time(low)

    def grown(self, start: float, end: float) -> Distribution | None:
        """The histogram of what was observed in the window."""
        found = self.increase(start, end)
        if found is None:
            return None
        *counts, total, count = found[0]
        return Distribution(self._bounds, tuple(counts), total, count)

    def points(self, start: float, end: float) -> list[tuple[float, float]]:
        """Time and value (a histogram's count) of the rows in [start, end]."""
        times, values = self.column(start, end, -1)
        return list(zip(times.tolist(), values.tolist(), strict=True))

    def column(self, start: float, end: float, place: int) -> tuple[Floats, Floats]:
        """Times and values at `place` of the rows in [start, end]."""
        return self._rings.reaching(start).column(start, end, place)

    def held(self) -> int:
        """Rows in all tiers."""
        return self._rings.points()


def _row(value: float | Distribution) -> tuple[float, ...]:
    if isinstance(value, Distribution):
        return (*value.counts, value.sum, value.count)
    return (value,)


def _sums(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _was_reset(before: Sequence[float], now: Sequence[float]) -> bool:
    if now[-1] < before[-1]:
        return True
    return any(new < old for old, new in zip(before[:-2], now[:-2], strict=True))
