"""Durations as people write them."""

from __future__ import annotations

import pytest

from rules.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5min", 300),
        ("5m", 300),
        ("1h30m", 5400),
        ("1 hour", 3600),
        ("250ms", 0.25),
        (10, 10),
        (0, 0),
    ],
)
def test_reads_what_people_write(text: object, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "value", ["", "5", "min", "5 parsecs", "-5s", -1, True, None, float("nan"), "1h " * 40]
)
def test_says_what_it_expects(value: object) -> None:
    with pytest.raises(ValueError, match="is no duration: write 30s, 5min or 1h"):
        seconds_of(value)
