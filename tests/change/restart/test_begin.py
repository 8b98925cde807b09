"""A start as its hand tells of it: on its way, come up, or ended, and why."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from change.restart.milestones import STEP_SECONDS
from change.server import LaunchCommand, ServerError, ServerState, Settings
from tests.change.restart.stand import Stand


class Rollout:
    """A hand whose starts are on their way for a while, as a rollout over replicas is; `then` is what comes of it."""

    def __init__(self, stand: Stand, seconds: float, then: ServerState | None = None) -> None:
        self._hand = stand.server
        self._clock = stand.clock
        self._seconds = seconds
        self._then = then
        self._until = 0.0
        self.starts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hand, name)

    async def start(self, command: LaunchCommand) -> ServerState:
        self.starts += 1
        self._until = self._clock.now() + self._seconds
        return await self._hand.start(command)

    async def look(self) -> ServerState:
        state = await self._hand.look()
        if self._clock.now() < self._until:
            return ServerState(False, state.identity, reason="1 of 2 replicas are not ready", starting=True)
        return state if self._then is None or self.starts != 1 else self._then


class Blind:
    """A hand that cannot say what runs, from `after` seconds after a start on and for so many `seconds`."""

    def __init__(self, stand: Stand, after: float, seconds: float, starts: int = 1) -> None:
        self._hand = stand.server
        self._clock = stand.clock
        self._after, self._seconds, self._starts = after, seconds, starts
        self._from = math.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hand, name)

    async def start(self, command: LaunchCommand) -> ServerState:
        state = await self._hand.start(command)
        if self._hand.starts == self._starts:
            self._from = self._clock.now() + self._after
        return state

    async def look(self) -> ServerState:
        if self._from <= self._clock.now() < self._from + self._seconds:
            raise ServerError("the API server answers HTTP 503")
        return await self._hand.look()


def test_a_rollout_that_is_on_its_way_is_no_failure() -> None:
    stand = Stand()
    rollout = Rollout(stand, 20.0)
    stand.parts = replace(stand.parts, server=rollout)
    result = stand.restart(block_size=64)
    assert (result.outcome, rollout.starts) == ("served", 1), result.reason
    assert stand.serves(block_size=64)


def test_the_reason_that_a_hand_gives_for_an_end_is_told() -> None:
    stand = Stand()
    stand.parts = replace(
        stand.parts, server=Rollout(stand, 5.0, ServerState(False, "pod 2", 137, reason="OOMKilled"))
    )
    result = stand.restart(block_size=64)
    assert (result.outcome, result.phase) == ("returned", "load")
    assert "ended with code 137 (OOMKilled)" in result.reason


def test_an_old_replica_that_is_well_is_not_what_is_waited_for() -> None:
    stand = Stand()
    rollout = Rollout(stand, 60.0)
    stand.parts = replace(stand.parts, server=rollout)
    begun = stand.clock.now()

    async def healthy() -> bool:
        return True

    async def effective(log: object) -> Settings:
        return {"block_size": 64 if stand.clock.now() > begun + 60.0 else 128}

    stand.probe.healthy = healthy  # type: ignore[method-assign]
    stand.probe.effective = effective  # type: ignore[method-assign]
    result = stand.restart(block_size=64)
    assert (result.outcome, rollout.starts) == ("served", 1), result.reason
    assert result.seconds["load"] >= 60.0


def test_a_rollout_that_stays_half_done_is_overdue_though_its_first_replica_serves() -> None:
    stand = Stand()
    step_seconds = dict.fromkeys(STEP_SECONDS, 30.0)
    settings = replace(stand.parts.settings, step_seconds=step_seconds)
    stand.parts = replace(stand.parts, server=Rollout(stand, 300.0), settings=settings)
    result = stand.restart(block_size=64)
    assert result.phase == "load"
    assert "was not all up within" in result.reason
    assert "1 of 2 replicas are not ready" in result.reason


@pytest.mark.parametrize(("after", "seconds"), [(1.0, 30.0), (20.0, 120.0), (42.0, 3.0)])
def test_a_hand_that_is_out_of_reach_for_a_while_ends_no_start(after: float, seconds: float) -> None:
    stand = Stand()
    stand.parts = replace(stand.parts, server=Blind(stand, after, seconds))
    result = stand.restart(block_size=64)
    assert (result.outcome, stand.server.starts) == ("served", 1), result.reason
    assert stand.serves(block_size=64)
    assert any("whether the engine runs is not known" in line for line in stand.said)


def test_an_engine_that_answers_is_let_be_where_the_hand_stays_out_of_reach() -> None:
    stand = Stand()
    stand.parts = replace(stand.parts, server=Blind(stand, 0.0, math.inf))
    result = stand.restart(block_size=64)
    assert (result.phase, stand.server.starts, stand.server.stops) == ("load", 1, 1)
    assert stand.serves(block_size=64)
    assert "whether it runs was not known for 300 s" in stand.alerts[0]


def test_the_way_back_waits_for_a_hand_that_is_out_of_reach_for_a_moment() -> None:
    stand = Stand()
    stand.server.faults = ["out_of_memory"]
    failures = ["once", "twice"]
    real = stand.server.look

    async def look() -> ServerState:
        if failures and any("load: failed" in line for line in stand.said):
            failures.pop()
            raise ServerError("the API server answers HTTP 503")
        return await real()

    stand.server.look = look  # type: ignore[method-assign]
    assert stand.restart(block_size=64).outcome == "returned"
    assert stand.serves(block_size=128)
    assert failures == []


def test_what_the_hand_knows_nothing_of_is_not_stopped() -> None:
    stand = Stand()
    stand.server.faults = ["out_of_memory", "hang"]
    stand.parts = replace(stand.parts, server=Blind(stand, 0.0, math.inf, starts=2))
    result = stand.restart(block_size=64)
    assert (result.outcome, stand.server.starts, stand.server.stops) == ("down", 2, 1)
