"""The admission gate and its lease."""

from __future__ import annotations

import pytest
from trimtab_plugin.gate import Gate

from tests.engine_plugin.fake_engine import Clock


def test_it_starts_open() -> None:
    gate = Gate(Clock())
    assert not gate.closed
    assert gate.lease_remaining_seconds is None


def test_a_closed_gate_reopens_by_itself() -> None:
    clock = Clock()
    gate = Gate(clock)
    gate.close(30, retry_after=5)
    clock.now += 29
    assert gate.closed
    assert gate.lease_remaining_seconds == 1
    clock.now += 1
    assert not gate.closed


def test_closing_again_renews_and_opening_opens() -> None:
    clock = Clock()
    gate = Gate(clock)
    gate.close(30, retry_after=5)
    clock.now += 29
    gate.close(30, retry_after=9)
    clock.now += 29
    assert gate.closed
    assert gate.retry_after == 9
    gate.open()
    assert not gate.closed


@pytest.mark.parametrize("lease", [0, -1, 120.1])
def test_a_lease_is_at_most_two_minutes(lease: float) -> None:
    with pytest.raises(ValueError, match="at most 120"):
        Gate(Clock()).close(lease, retry_after=1)
