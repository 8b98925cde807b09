"""Memory over time keeps its peaks in a bounded number of spans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collectors.profile.memory_track import MOST_SPANS, MemoryTrack, tracks

RECORDS = st.lists(
    st.tuples(st.integers(0, 2**60), st.none() | st.integers(0, 10**12), st.none() | st.integers(0, 10**12)),
    min_size=1,
    max_size=60,
)


@given(RECORDS)
def test_peaks_and_times_survive_any_order_and_length(
    records: list[tuple[int, int | None, int | None]],
) -> None:
    track = MemoryTrack("PTA")
    for time, allocated, reserved in records:
        track.add(time, allocated, reserved)
    (found,) = tracks({"PTA": track})
    assert len(found.spans) <= MOST_SPANS
    assert found.peak_allocated_bytes == max((a for _, a, _ in records if a is not None), default=None)
    assert found.peak_reserved_bytes == max((r for _, _, r in records if r is not None), default=None)
    assert found.spans[0].start_seconds >= 0
    assert all(a.start_seconds < b.start_seconds for a, b in zip(found.spans, found.spans[1:], strict=False))


def test_components_share_one_time_axis() -> None:
    short, long = MemoryTrack("GE"), MemoryTrack("PTA")
    short.add(10**15 + 5_000_000, 1, 2)
    for step in range(1000):
        long.add(10**15 + step * 1_000_000, step, 2000)
    found = {component.name: component for component in tracks({"GE": short, "PTA": long})}
    assert found["GE"].span_seconds == found["PTA"].span_seconds
    assert abs(found["GE"].spans[0].start_seconds - 0.005) <= found["GE"].span_seconds
    assert found["PTA"].fragmentation_ratio is not None
    assert 0.7 < found["PTA"].fragmentation_ratio < 0.8


def test_unknown_stays_unknown() -> None:
    track = MemoryTrack("APP")
    track.add(0, None, 5)
    (found,) = tracks({"APP": track})
    assert found.peak_allocated_bytes is None
    assert found.fragmentation_ratio is None
    assert tracks({}) == ()
