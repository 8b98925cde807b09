"""A device's time is divided as an exact count of every moment would divide it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.profile.timeline import LONGEST_GAPS, Coverage

TASKS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60), st.booleans()), min_size=1, max_size=25)


@given(TASKS)
def test_the_parts_are_those_of_a_moment_by_moment_count(tasks: list[tuple[int, int, bool]]) -> None:
    coverage = Coverage()
    computing: set[int] = set()
    busy: set[int] = set()
    for start, length, computes in sorted(tasks):
        coverage.add(start, length, "task", computes)
        busy.update(range(start, start + length))
        if computes:
            computing.update(range(start, start + length))
    found = coverage.result()
    assert found is not None
    span = max(start + length for start, length, _ in tasks) - min(start for start, _, _ in tasks)
    assert found.span_seconds == pytest.approx(span * 1e-9)
    assert found.computing_seconds == pytest.approx(len(computing) * 1e-9)
    assert found.exposed_communication_seconds == pytest.approx(len(busy - computing) * 1e-9)
    assert found.free_seconds == pytest.approx((span - len(busy)) * 1e-9)


def test_gaps_are_counted_from_fifty_microseconds_and_named_by_what_came_next() -> None:
    coverage = Coverage()
    at = 0
    for number, gap in enumerate((0, 49_000, 50_000, 300_000, 60_000, 70_000, 80_000, 90_000)):
        at += gap
        coverage.add(at, 1000, f"task{number}", True)
        at += 1000
    found = coverage.result()
    assert found is not None
    assert found.gap_count == 6
    assert found.gap_seconds == pytest.approx(650e-6)
    assert [gap.before for gap in found.longest_gaps] == ["task3", "task7", "task6", "task5", "task4"]
    assert len(found.longest_gaps) == LONGEST_GAPS


def test_tasks_out_of_order_give_no_figures_in_place_of_wrong_ones() -> None:
    coverage = Coverage()
    coverage.add(1000, 10, "a", True)
    coverage.add(500, 10, "b", True)
    assert coverage.result() is None
    assert not coverage.in_order


def test_nothing_is_no_timeline() -> None:
    assert Coverage().result() is None
