"""Which Unix times a line's stamp may mean."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.stamp import is_recent, times_of

NOW = 1_796_034_620.0  # 2026-11-30 10:30:20 UTC
EIGHT = 8 * 3600.0


@pytest.fixture
def china(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CST-8")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("china")
@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-30-10:30:20.123.456",
        "2026-11-30 10:30:20,123",
        "2026/11/30 10:30:20.123456",
        "11-30 10:30:20",
        "1130 10:30:20.123456",
    ],
)
def test_without_a_zone_it_is_utc_or_the_hosts(stamp: str) -> None:
    assert times_of(stamp, NOW) == (NOW, NOW - EIGHT)


@pytest.mark.parametrize(
    "stamp", ["2026-11-30T10:30:20Z", "2026-11-30T18:30:20.5+08:00", "2026-11-30 05:30:20-0500"]
)
def test_a_zone_is_believed(stamp: str) -> None:
    assert times_of(stamp, NOW) == (NOW,)


def test_without_a_year_it_is_the_last_such_day() -> None:
    new_year = 1_798_761_600.0  # 2027-01-01 00:00:00 UTC
    assert new_year - 60 in times_of("12-31 23:59:00", new_year)


@pytest.mark.usefixtures("china")
def test_of_two_meanings_the_older_counts_if_both_may_be() -> None:
    stamp = "2026-11-30 10:30:20"
    assert is_recent(stamp, NOW - 3600, NOW, 300)
    assert not is_recent(stamp, NOW - 2 * EIGHT, NOW, 300)


def test_what_is_no_time_is_not_recent() -> None:
    for stamp in (None, "12.345", "2026-13-30 10:30:20", "02-30 10:30:20"):
        assert not is_recent(stamp, 0.0, NOW, 300)


@given(st.from_regex(r"(\d{4}[-/])?\d\d-?\d\d[-T ]\d\d:\d\d:\d\d(Z|[+-]\d\d:?\d\d)?", fullmatch=True))
def test_no_stamp_does_harm(stamp: str) -> None:
    assert len(times_of(stamp, NOW)) <= 2
