"""Pauses after failures: they double, they end, and no clock makes them endless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.delivery.backoff import SPREAD, Backoff


def pause(backoff: Backoff, now: float) -> float:
    """For how many seconds it is not ready, to a hundredth."""
    return next(step / 100 for step in range(100_000) if backoff.ready(now + step / 100))


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff("a", first=1.0, longest=8.0)
    expected = [1.0, 2.0, 4.0, 8.0, 8.0]
    now = 1e9
    for wanted in expected:
        backoff.failed(now)
        took = pause(backoff, now)
        assert wanted * (1 - SPREAD) <= took <= wanted * (1 + SPREAD) + 0.01
        now += took
    backoff.succeeded()
    assert backoff.ready(now)
    backoff.failed(now)
    assert pause(backoff, now) < 1.3


def test_what_the_target_asks_for_is_kept_within_reason() -> None:
    backoff = Backoff("a", first=1.0, longest=8.0)
    backoff.failed(0.0, at_least=10.0)
    assert 10.0 <= pause(backoff, 0.0) < 10.1
    backoff.failed(0.0, at_least=1e9)
    assert pause(backoff, 0.0) == 16.0


def test_two_targets_do_not_come_back_at_the_same_time() -> None:
    one, other = Backoff("one"), Backoff("other")
    one.failed(0.0)
    other.failed(0.0)
    assert pause(one, 0.0) != pause(other, 0.0)


@given(st.floats(0, 1e10), st.floats(-1e9, 1e9), st.integers(1, 20))
def test_a_clock_that_was_set_does_not_make_it_wait_for_ever(
    start: float, jump: float, failures: int
) -> None:
    backoff = Backoff("a", longest=30.0)
    for _ in range(failures):
        backoff.failed(start)
    after = start + jump
    assert backoff.ready(after) or backoff.ready(after + 61.0)


@pytest.mark.parametrize(("first", "longest"), [(0.0, 1.0), (2.0, 1.0)])
def test_pauses_that_are_none_are_refused(first: float, longest: float) -> None:
    with pytest.raises(ValueError, match="0 < first <= longest"):
        Backoff("a", first=first, longest=longest)
