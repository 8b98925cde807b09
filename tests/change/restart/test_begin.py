"""A start as its hand tells of it: on its way, come up, or ended, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from change.server import LaunchCommand, ServerState
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
