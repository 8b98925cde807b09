"""A playbook goes before a trial: the campaign gives way, or the incumbent is put back without it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from change.journal import Journal
from daemon.acting.preempt import Preempt
from sim.node import Node
from store import open_store
from tuner.messages import Decision

START = 1_700_000_000.0
INCUMBENT = 128.0


class Campaign:
    """A campaign with a trial of `max_num_seqs` 64 under a lease; it takes `seconds` to end, or fails to."""

    def __init__(self, node: Node, journal: Journal, seconds: float = 0.0, fails: bool = False) -> None:
        self.node, self.journal = node, journal
        self.seconds, self.fails = seconds, fails
        self.running = True
        self.stopped: list[tuple[str, Decision, bool]] = []
        self.abandoned: list[str] = []
        control = node.control
        state = control.read_state()
        self.entry = journal.open(
            "trial",
            state.boot_id,
            "campaign 1",
            {"max_num_seqs": 64.0},
            {"max_num_seqs": state.values["max_num_seqs"]},
            START,
        )
        control.apply({"max_num_seqs": 64.0}, if_epoch=state.epoch, lease_seconds=30.0)

    async def stop(
        self, reason: str, now: float, *, may_restart: bool = True, decision: Decision = "aborted"
    ) -> None:
        self.stopped.append((reason, decision, may_restart))
        await asyncio.sleep(self.seconds)
        if self.fails:
            raise ZeroDivisionError
        state = self.node.control.read_state()
        self.node.control.apply({"max_num_seqs": INCUMBENT}, if_epoch=state.epoch, lease_seconds=None)
        self.running = False

    def abandon(self, reason: str) -> None:
        self.abandoned.append(reason)
        self.running = False


class World:
    def __init__(self, **how: Any) -> None:
        self.node = Node("default", 101, START)
        self.node.advance(START + 5.0)
        state = self.node.control.read_state()
        self.node.control.apply({"max_num_seqs": INCUMBENT}, if_epoch=state.epoch, lease_seconds=None)
        self.journal = Journal(open_store("sqlite:///:memory:"), "http://127.0.0.1:8000")
        self.campaign = Campaign(self.node, self.journal, **how)
        self.preempt = Preempt(self.campaign, self.node.control, self.journal, patience_seconds=0.2)

    def clear(self) -> str | None:
        async def story() -> str | None:
            told = await self.preempt.clear("run-12 acts", START)
            await asyncio.sleep(0)
            return told

        return asyncio.run(story())

    @property
    def served(self) -> float:
        return self.node.control.read_state().values["max_num_seqs"]

    @property
    def lease(self) -> float | None:
        return self.node.control.read_state().lease_remaining_seconds


def test_a_campaign_that_ends_in_time_is_superseded_and_restarts_nothing() -> None:
    world = World()
    told = world.clear()
    assert told is not None
    assert world.campaign.stopped == [("run-12 acts", "superseded", False)]
    assert world.campaign.abandoned == []
    assert (world.served, world.lease) == (INCUMBENT, None)


@pytest.mark.parametrize("how", [{"seconds": 60.0}, {"fails": True}])
def test_one_that_does_not_is_given_up_and_the_incumbent_put_back(how: dict[str, Any]) -> None:
    world = World(**how)
    begun = time.monotonic()
    told = world.clear()
    assert time.monotonic() - begun < 30.0
    assert told is not None
    assert "given up" in told
    assert len(world.campaign.abandoned) == 1
    assert (world.served, world.lease) == (INCUMBENT, None)


def test_an_engine_that_answers_nothing_holds_nobody_up() -> None:
    world = World(seconds=60.0)
    world.node.control.down = True
    begun = time.monotonic()
    told = world.clear()
    assert time.monotonic() - begun < 30.0
    assert told is not None
    assert "lease" in told
    assert len(world.campaign.abandoned) == 1


def test_without_a_campaign_nothing_happens() -> None:
    world = World()
    world.campaign.running = False
    assert world.clear() is None
    assert world.campaign.stopped == []


def test_a_stop_that_comes_late_ends_nothing_any_more() -> None:
    world = World(seconds=0.5)

    async def story() -> None:
        await world.preempt.clear("run-12 acts", START)
        world.campaign.running = True  # another one has begun
        state = world.node.control.read_state()
        world.node.control.apply({"max_num_seqs": 32.0}, if_epoch=state.epoch, lease_seconds=None)
        await asyncio.sleep(0.6)
        assert world.campaign.running
        assert world.served == 32.0

    asyncio.run(story())
