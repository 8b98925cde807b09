"""A time series of any length in a bounded number of equal stretches of time."""

from __future__ import annotations

from collectors.profile.model import MemoryComponent, MemorySpan

MOST_SPANS = 240
FINEST_NS = 1_000


class MemoryTrack:
    """The most that one component held, by time, however long and in whatever order the records come.

    Spans are aligned to multiples of their length; when there are too many, the length doubles and pairs merge.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._length = FINEST_NS
        self._spans: dict[int, tuple[float | None, float | None]] = {}
        self._low = self._high = 0
        self._gap_sum = 0.0
        self._gap_count = 0

    def add(self, time: int, allocated: float | None, reserved: float | None) -> None:
        """Add a record: time in nanoseconds, sizes in bytes."""
        index = time // self._length
        self._low = index if not self._spans else min(self._low, index)
        self._high = index if not self._spans else max(self._high, index)
        self._merge(self._spans, index, allocated, reserved)
        if allocated is not None and reserved is not None and reserved > 0:
            self._gap_sum += (reserved - allocated) / reserved
            self._gap_count += 1
        while self._high - self._low >= MOST_SPANS:
            self._coarsen()

    def _coarsen(self) -> None:
        merged: dict[int, tuple[float | None, float | None]] = {}
        for index, (allocated, reserved) in self._spans.items():
            self._merge(merged, index // 2, allocated, reserved)
        self._spans = merged
        self._low, self._high = self._low // 2, self._high // 2
        self._length *= 2

    @staticmethod
    def _merge(
        spans: dict[int, tuple[float | None, float | None]],
        index: int,
        allocated: float | None,
        reserved: float | None,
    ) -> None:
        before = spans.get(index, (None, None))
        spans[index] = (_most(before[0], allocated), _most(before[1], reserved))

    def result(self, origin: int, length: int) -> MemoryComponent:
        """The component with times from `origin` (ns), in spans of at least `length` (ns)."""
        while self._length < length:
            self._coarsen()
        spans = sorted(self._spans.items())
        return MemoryComponent(
            self.name,
            self._length * 1e-9,
            tuple(MemorySpan((i * self._length - origin) * 1e-9, a, r) for i, (a, r) in spans),
            max((a for _, (a, _) in spans if a is not None), default=None),
            max((r for _, (_, r) in spans if r is not None), default=None),
            self._gap_sum / self._gap_count if self._gap_count else None,
        )

    @property
    def length(self) -> int:
        """How long a span is now, in nanoseconds."""
        return self._length

    @property
    def start(self) -> int | None:
        """Where the first span begins, in nanoseconds."""
        return min(self._spans) * self._length if self._spans else None


def tracks(found: dict[str, MemoryTrack]) -> tuple[MemoryComponent, ...]:
    """All components on one time axis, the largest first."""
    live = [track for track in found.values() if track.start is not None]
    if not live:
        return ()
    length = max(track.length for track in live)
    origin = min(track.start or 0 for track in live) // length * length
    components = [track.result(origin, length) for track in live]
    return tuple(sorted(components, key=lambda c: (-(c.peak_reserved_bytes or 0.0), c.name)))


def _most(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)
