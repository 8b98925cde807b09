"""An engine that cannot be ended, and stores and gates that fail on the way back: what serves goes on to serve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy.orm import Session

from change.apply import change
from change.engine import EngineError
from change.journal import Journal, JournalUnwritable
from change.restart.budget import spent
from change.restart.command import same
from change.restart.recovery import recover
from change.server import ServerError
from tests.change.restart.stand import Stand


def refuse(stand: Stand, times: int) -> list[float]:
    """The hand refuses the next stops; returns when each was ordered."""
    asked: list[float] = []
    real = stand.server.stop

    async def stop(*, grace_seconds: float) -> None:
        asked.append(stand.clock.now())
        if len(asked) <= times:
            raise ServerError("permission denied")
        await real(grace_seconds=grace_seconds)

    stand.server.stop = stop  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize("times", [1, 2, 1000])
def test_an_engine_that_cannot_be_stopped_serves_on_with_its_gate_open(times: int) -> None:
    stand = Stand()
    before = stand.server.run
    asked = refuse(stand, times)
    result = stand.restart(block_size=64)
    assert (result.outcome, result.phase) == ("refused", "stop")
    assert "permission denied" in result.reason
    assert stand.server.run is before
    assert stand.serves(block_size=128)
    assert len(asked) == 1
    assert result.down_seconds < 30
    (entry,) = stand.entries()
    assert (entry.state, entry.outcome) == ("closed", "undone")


def test_one_that_ends_after_all_though_its_stop_failed_is_brought_back() -> None:
    stand = Stand()
    real = stand.server.stop

    async def stop(*, grace_seconds: float) -> None:
        await real(grace_seconds=grace_seconds)
        stand.server.stop = real  # type: ignore[method-assign]

    async def stop_later(*, grace_seconds: float) -> None:
        stand.server.stop = stop  # type: ignore[method-assign]
        stand.server.run = replace(stand.server.run, ends_at=stand.clock.now() + 30.0, exit_code=0)
        raise ServerError("the hand did not answer in time")

    stand.server.stop = stop_later  # type: ignore[method-assign]
    result = stand.restart(block_size=64)
    assert result.outcome == "returned"
    assert stand.serves(block_size=128)
    assert stand.server.starts == 1


@pytest.mark.parametrize("times", [1, 2])
def test_a_failed_start_that_is_not_ended_at_once_is_ended_and_the_last_known_good_started(
    times: int,
) -> None:
    stand = Stand()
    good = stand.server.run.command
    stand.server.faults = ["slo"]
    seen: list[int] = []
    real = stand.server.stop

    async def stop(*, grace_seconds: float) -> None:
        seen.append(1)
        if 2 <= len(seen) <= 1 + times:
            raise ServerError("busy")
        await real(grace_seconds=grace_seconds)

    stand.server.stop = stop  # type: ignore[method-assign]
    result = stand.restart(block_size=64)
    assert result.outcome == "returned"
    assert stand.serves(block_size=128)
    assert same(stand.server.kept, good)


def test_a_failed_start_that_can_never_be_ended_is_left_to_its_users_and_said() -> None:
    stand = Stand()
    stand.server.faults = ["slo"]
    seen: list[int] = []
    real = stand.server.stop

    async def stop(*, grace_seconds: float) -> None:
        seen.append(1)
        if len(seen) >= 2:
            raise ServerError("busy")
        await real(grace_seconds=grace_seconds)

    stand.server.stop = stop  # type: ignore[method-assign]
    result = stand.restart(block_size=64)
    assert result.outcome == "down"
    assert stand.serves(block_size=64)
    assert stand.alerts
    assert "not proved" in stand.alerts[0]


def test_a_last_known_good_whose_gate_does_not_open_by_order_is_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = Stand()
    stand.server.faults = ["out_of_memory"]
    gate = stand.node.control.gate

    async def shut(state: str, **how: float) -> None:
        if state == "open":
            raise EngineError("the plugin does not answer")
        await gate(state, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(stand.node.control, "gate", shut)
    result = stand.restart(block_size=64)
    assert result.outcome == "returned"
    assert stand.server.serving
    stand.node.advance(stand.node.now + 130.0)
    assert stand.serves(block_size=128)


async def dies(**_: float) -> None:
    raise KeyboardInterrupt


def killed_before_the_stop(stand: Stand, kind: str = "manual", **settings: int) -> None:
    real, stand.server.stop = stand.server.stop, dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stand.restart(kind, **settings)
    stand.server.stop = real  # type: ignore[method-assign]


def test_a_crash_between_the_note_of_the_stop_and_the_stop_costs_no_restart() -> None:
    stand = Stand()
    before = stand.server.run
    killed_before_the_stop(stand, block_size=64)
    (entry,) = stand.entries()
    assert entry.state == "applied"
    (closed,) = stand.live(recover(stand.parts))
    assert closed.outcome == "recovered"
    assert stand.server.run is before
    assert stand.serves(block_size=128)


def test_a_trial_that_was_to_be_ended_is_no_last_known_good() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    killed_before_the_stop(stand, "trial", block_size=32)
    stand.live(recover(stand.parts))
    assert stand.serves(block_size=128)
    assert stand.journal.open_entries("cold") == []


def test_recovery_leaves_what_cannot_be_ended_to_its_users() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    asked = refuse(stand, 1000)
    (closed,) = stand.live(recover(stand.parts))
    assert len(asked) == 3
    assert closed.outcome == "undone"
    assert stand.serves(block_size=64)
    assert "not proved" in stand.alerts[0]


class Full:
    """From the first stop on the store cannot be written, for so many seconds."""

    def __init__(self, stand: Stand, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self._stand = stand
        self._until = 0.0
        real = stand.server.stop

        async def stop(*, grace_seconds: float) -> None:
            self._until = self._until or stand.clock.now() + seconds
            await real(grace_seconds=grace_seconds)

        stand.server.stop = stop  # type: ignore[method-assign]
        writing = Journal._writing

        @contextmanager
        def full(journal: Journal) -> Iterator[Session]:
            if stand.clock.now() < self._until:
                raise JournalUnwritable("database or disk is full")
            with writing(journal) as session:
                yield session

        monkeypatch.setattr(Journal, "_writing", full)


@pytest.mark.parametrize("seconds", [60.0, 1e6])
def test_a_store_that_cannot_be_written_after_the_stop_takes_no_engine_away(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand()
    stand.live(
        change(
            stand.node.control,
            stand.journal,
            {"batch_max_tokens": 512.0},
            kind="promotion",
            actor="campaign 3",
            now=stand.clock.now(),
            campaign_id=3,
        )
    )
    Full(stand, monkeypatch, seconds)
    result = stand.restart(block_size=64)
    assert result.outcome == "returned"
    assert stand.serves(block_size=128)
    assert bool(stand.alerts) == (seconds > 1000)
    monkeypatch.undo()
    if stand.journal.open_entries("cold"):
        starts = stand.server.starts
        stand.live(recover(stand.parts))
        assert stand.server.starts == starts
    assert stand.journal.open_entries("cold") == []
    assert stand.serves(block_size=128)


def test_hot_values_that_cannot_be_set_again_do_not_end_the_last_known_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = Stand()
    stand.live(
        change(
            stand.node.control,
            stand.journal,
            {"batch_max_tokens": 512.0},
            kind="manual",
            actor="operator",
            now=stand.clock.now(),
        )
    )
    stand.server.faults = ["out_of_memory"]

    async def refuses(*_: object, **__: object) -> None:
        raise EngineError("the engine does not answer within 4 s")

    monkeypatch.setattr(stand.node.control, "set_knobs", refuses)
    result = stand.restart(block_size=64)
    assert result.outcome == "returned"
    assert stand.serves(block_size=128)
    assert "without its hot values" in stand.alerts[0]


def test_an_engine_that_is_left_down_costs_the_budget_until_it_serves_again() -> None:
    stand = Stand()
    stand.server.faults = ["out_of_memory", "init_failure"]
    result = stand.restart(block_size=64)
    assert result.outcome == "down"
    first = spent(stand.journal, stand.node.now).lost_seconds
    assert first == pytest.approx(result.down_seconds, abs=0.01)
    stand.node.advance(stand.node.now + 600.0)
    assert spent(stand.journal, stand.node.now).lost_seconds == pytest.approx(first + 600.0)
    assert stand.restart(block_size=128).outcome == "served"
    then = spent(stand.journal, stand.node.now).lost_seconds
    assert then > first + 600.0
    stand.node.advance(stand.node.now + 600.0)
    assert spent(stand.journal, stand.node.now).lost_seconds == pytest.approx(then)
