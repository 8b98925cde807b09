"""A node's clock follows the given one at its speed, or falls behind whole rather than skip a part of its life."""

from __future__ import annotations

import asyncio

import pytest

from sim.node import Node
from sim.pace import SLICE_SECONDS, Pace

START = 1_700_000_000.0


def test_the_node_lives_at_the_asked_speed() -> None:
    hand = [100.0]
    pace = Pace(Node("default", 1, START), speed=30.0, clock=lambda: hand[0])
    assert pace.catch_up() == START
    hand[0] += 0.5
    assert pace.catch_up() == pytest.approx(START + 15.0)
    assert pace.lost_seconds == 0.0


def test_too_much_for_the_machine_makes_the_nodes_clock_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = [0.0]
    pace = Pace(Node("default", 1, START), speed=200.0, clock=lambda: hand[0])
    monkeypatch.setattr("sim.pace.BUDGET_SECONDS", 0.0)
    hand[0] = 10.0
    assert pace.catch_up() == START + SLICE_SECONDS
    assert pace.lost_seconds == pytest.approx(2000.0 - SLICE_SECONDS)
    hand[0] += 0.001
    assert pace.catch_up() == pytest.approx(START + SLICE_SECONDS + 0.2), "it goes on from where it is"


def test_who_waits_is_woken_when_the_node_has_lived_on() -> None:
    async def within() -> float:
        hand = [0.0]
        pace = Pace(Node("default", 1, START), clock=lambda: hand[0])
        life = asyncio.create_task(pace.run())
        waiter = asyncio.create_task(pace.moved())
        await asyncio.sleep(0)
        hand[0] = 3.0
        await asyncio.wait_for(waiter, 10.0)
        life.cancel()
        return pace.node.now

    assert asyncio.run(within()) == START + 3.0


def test_no_speed_is_refused() -> None:
    with pytest.raises(ValueError, match="speed must be above 0"):
        Pace(Node("default", 1, START), speed=0.0)
