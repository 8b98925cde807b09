"""Notes are kept to a number a person reads."""

from __future__ import annotations

from collectors.notes import bounded


def test_the_first_ones_and_how_many_more() -> None:
    notes = [str(number) for number in range(7)]
    assert bounded(notes, 7) == notes
    assert bounded(notes, 3) == ["0", "1", "2", "and 4 more like these"]
