"""What is tried next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.proposer import spread


def test_the_middle_comes_first_and_then_both_sides() -> None:
    halves: list[dict[str, float]] = [{"knob": v} for v in (2048, 1024, 512, 256, 128, 64, 32)]
    assert [values["knob"] for values in spread(halves)] == [256, 1024, 64, 2048, 512, 128, 32]


@given(st.lists(st.floats(0, 1), max_size=20))
def test_nothing_is_lost_or_doubled(places: list[float]) -> None:
    given_values: list[dict[str, float]] = [{"knob": place} for place in places]
    assert sorted(v["knob"] for v in spread(given_values)) == sorted(places)
