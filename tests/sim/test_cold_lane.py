"""The simulated cold lane: what each kind of restart does to the node and says of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from change.restart.order import RestartResult
from sim.cold_lane import SimulatedColdLane
from sim.node import Node

START = 1_700_000_000.0


class Stand:
    def __init__(self, scenario: str = "guide-235b") -> None:
        self.node = Node(scenario, 3, START)
        self.node.advance(START + 120.0)
        self.lane = SimulatedColdLane(self.node)

    def restart(self, kind: Any = "trial", **settings: Any) -> RestartResult:
        return asyncio.run(self.lane.restart(settings, actor="test", kind=kind))

    def settings(self) -> Any:
        return asyncio.run(self.lane.settings())


def test_it_serves_with_what_was_asked_for_and_no_request_is_lost() -> None:
    stand = Stand()
    boot = stand.node.control.boot_id
    result = stand.restart(block_size=64)
    assert result.outcome == "served" and result.effective["block_size"] == 64
    assert stand.settings()["block_size"] == 64
    assert stand.node.control.boot_id != boot and not stand.node.control.down
    assert result.down_seconds >= result.seconds["load"] > 400.0
    assert stand.node.failed_requests == 0


def test_requests_inside_finish_before_it_stops() -> None:
    stand = Stand()
    inside = stand.node.running + stand.node.waiting
    done = stand.node.completed
    stand.restart(block_size=64)
    assert stand.node.completed >= done + inside


def test_what_cannot_start_stops_nothing() -> None:
    stand = Stand()
    boot, now = stand.node.control.boot_id, stand.node.now
    result = stand.restart(swap_space=4)
    assert result.outcome == "refused" and "gone" in result.reason and result.down_seconds == 0.0
    assert stand.node.control.boot_id == boot and stand.node.now == now


def test_a_start_that_runs_out_of_memory_ends_on_the_last_known_good() -> None:
    stand = Stand()
    stand.restart("promotion", block_size=64)
    result = stand.restart(gpu_memory_utilization=0.95, block_size=32)
    assert result.outcome == "returned" and result.phase == "load" and "out of memory" in result.reason
    assert stand.settings()["block_size"] == 64 and stand.settings()["gpu_memory_utilization"] == 0.9


def test_a_promotion_of_what_serves_restarts_nothing_and_is_the_new_last_known_good() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    boot = stand.node.control.boot_id
    result = stand.restart("promotion", block_size=64)
    assert result.outcome == "served" and result.down_seconds == 0.0
    assert stand.node.control.boot_id == boot
    stand.restart(gpu_memory_utilization=0.95)
    assert stand.settings()["block_size"] == 64


def test_a_forced_value_is_said_and_not_hidden() -> None:
    result = Stand("clamped").restart(block_size=64)
    assert result.outcome == "served" and result.effective["block_size"] == 128


def test_a_scenario_without_start_up_settings_has_no_cold_lane() -> None:
    with pytest.raises(ValueError, match="no start-up settings"):
        SimulatedColdLane(Node("default", 1, START))
