"""Times of day and spans of hours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.quiet_hours import DAY_MINUTES, QuietHours, minute_of_day


@pytest.mark.parametrize(("text", "minute"), [("00:00", 0), ("7:05", 425), ("23:59", 1439)])
def test_a_time_of_day_is_minutes_since_midnight(text: str, minute: int) -> None:
    assert minute_of_day(text) == minute


@pytest.mark.parametrize("text", ["", "24:00", "7", "7:5", "07:60", "-1:00", "aa:bb"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no time of day"):
        minute_of_day(text)


@pytest.mark.parametrize(
    ("span", "inside", "outside"),
    [
        ("08:00-20:00", ["08:00", "12:00", "19:59"], ["07:59", "20:00", "00:00"]),
        ("22:00-06:00", ["22:00", "23:59", "00:00", "05:59"], ["06:00", "21:59", "12:00"]),
    ],
)
def test_a_span_holds_its_start_and_not_its_end(span: str, inside: list[str], outside: list[str]) -> None:
    hours = QuietHours.parse(span)
    assert all(hours.holds(minute_of_day(text)) for text in inside)
    assert not any(hours.holds(minute_of_day(text)) for text in outside)


@given(st.integers(0, DAY_MINUTES - 1), st.integers(0, DAY_MINUTES - 1))
def test_a_span_and_its_complement_share_the_day(start: int, end: int) -> None:
    if start == end:
        return
    span, rest = QuietHours(start, end), QuietHours(end, start)
    assert all(span.holds(minute) != rest.holds(minute) for minute in range(DAY_MINUTES))
    assert QuietHours.parse(str(span)) == span
