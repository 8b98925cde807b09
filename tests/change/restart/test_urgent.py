"""A restart of an engine that answers nothing: not drained for long, not given its whole grace, not watched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from change.engine import EngineError
from change.restart.end import URGENT_DRAIN_SECONDS, URGENT_GRACE_SECONDS
from change.restart.order import RestartResult
from change.restart.restart import Restart
from tests.change.restart.stand import Stand


def urgent(stand: Stand) -> RestartResult:
    return stand.live(Restart(stand.parts, replace(stand.order(), urgent=True)).run())


def test_its_requests_and_its_end_are_not_waited_for() -> None:
    stand = Stand()
    stand.server.stubborn = True
    result = urgent(stand)
    assert result.outcome == "served"
    assert result.seconds["drain"] <= URGENT_DRAIN_SECONDS + 1.0
    assert result.seconds["stop"] <= URGENT_GRACE_SECONDS + 1.0
    assert stand.serves(block_size=128)


def test_a_gate_that_does_not_close_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    boot = stand.node.control.boot_id
    gate, state = type(stand.node.control).gate, type(stand.node.control).state

    async def broken_gate(self, *args, **more):  # type: ignore[no-untyped-def]
        if self.boot_id == boot:
            raise EngineError("no answer")
        await gate(self, *args, **more)

    async def broken_state(self):  # type: ignore[no-untyped-def]
        if self.boot_id == boot:
            raise EngineError("no answer")
        return await state(self)

    monkeypatch.setattr(type(stand.node.control), "gate", broken_gate)
    monkeypatch.setattr(type(stand.node.control), "state", broken_state)
    refused = stand.restart()
    assert (refused.outcome, refused.phase) == ("refused", "preflight")
    assert stand.server.stops == 0
    result = urgent(stand)
    assert result.outcome == "served", result.reason
    assert stand.server.stops == 1


def test_it_is_not_watched_as_there_is_nothing_better_to_return_to() -> None:
    stand = Stand()
    stand.server.faults = ["slo"]
    assert urgent(stand).outcome == "served"
    assert stand.server.starts == 1


def test_a_start_that_fails_is_still_tried_once_more() -> None:
    stand = Stand()
    stand.server.faults = ["init_failure"]
    result = urgent(stand)
    assert result.outcome == "returned"
    assert stand.serves(block_size=128)
