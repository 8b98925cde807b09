"""What runs have done waits for its turn; what its run waits for no longer, or is stopped by then, is not done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.acting.deed import RunContext
from daemon.acting.hands import ActingHands
from daemon.acting.preempt import Preempt
from daemon.acting.work import Workers
from rules.actions import Action, CaptureKind, Outcome, Plan
from rules.playbook.messages import DoAct, Result, TakeCapture, UndoAct
from tests.change.restart.stand import Stand
from tests.daemon.acting.driver_stand import DriverStand, NoCampaign, PaperCaptures

PLAN = Plan("start one more replica", "service", True, {"hook": "scale_down"})
PROFILE_AND_RESCUE = """
playbooks:
  - name: slow
    title: Slow
    description: What takes so long.
    cooldown: 30min
    steps:
      - {name: profile, capture: msprof, seconds: 120}
      - {name: cause, diagnose: it is in the profile, cause: unknown}
  - name: dead
    title: Dead
    description: Started again.
    cooldown: 3min
    urgent: true
    steps:
      - {name: evidence, capture: plog}
      - {name: restart, act: {kind: restart, arguments: {when: down}}, timeout: 1h}
      - {name: back, verify: npu_temperature_celsius > 0}
"""


class Replicas:
    """A deed that writes down what it does."""

    preempts = True

    def __init__(self) -> None:
        self.done: list[str] = []

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        return PLAN

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        self.done.append(f"act of {context.run}")
        return Outcome(True, "done")

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        self.done.append(f"undo of {context.run}")
        return Outcome(True, "as before")


class SlowCaptures(PaperCaptures):
    """Every capture takes as long as it was asked to, and `more` beyond that."""

    more = 0.0

    async def take(self, kind: CaptureKind, seconds: float, now: float) -> Outcome:
        await asyncio.sleep(seconds + self.more)
        return await super().take(kind, seconds, now)


class World:
    def __init__(self) -> None:
        self.stand = Stand()
        self.deed, self.captures, self.campaign = Replicas(), SlowCaptures(), NoCampaign()
        self.halted: str | None = None
        preempt = Preempt(self.campaign, self.stand.node.control, self.stand.journal)
        self.workers = Workers(
            ActingHands({"scale_up": self.deed}, self.captures, preempt),
            self.stand.clock.now,
            halted=lambda: self.halted,
        )

    def capture(self, run: int, seconds: float, kind: CaptureKind = "msprof") -> None:
        self.workers.begin(TakeCapture(run, 1, "evidence", kind, seconds), context(run))

    def act(self, run: int, timeout: float) -> None:
        self.workers.begin(DoAct(run, 2, "more", 1, Action("scale_up", {}, timeout), PLAN), context(run))

    def live(self, story: Callable[[], Awaitable[None]]) -> list[Result]:
        """The results for run 2."""

        async def told() -> list[Result]:
            await story()
            return [result for result in self.workers.results() if result.run_id == 2]

        return self.stand.live(told())


def context(run: int) -> RunContext:
    return RunContext(f"run-{run}", "busy")


@pytest.fixture
def world() -> World:
    return World()


def test_who_waits_no_longer_than_its_time_has_its_turn(world: World) -> None:
    async def story() -> None:
        world.capture(1, 20.0)
        await asyncio.sleep(1.0)
        world.act(2, timeout=60.0)
        await asyncio.sleep(30.0)

    (result,) = world.live(story)
    assert result.outcome is not None and result.outcome.ok
    assert world.deed.done == ["act of run-2"]


def test_a_profile_is_ended_for_what_cannot_wait_for_it(world: World) -> None:
    async def story() -> None:
        world.capture(1, 100.0)
        await asyncio.sleep(1.0)
        world.workers.end_profile(1)
        world.act(2, timeout=10.0)
        await asyncio.sleep(5.0)

    (result,) = world.live(story)
    assert result.outcome is not None and result.outcome.ok
    assert world.captures.taken == []
    assert not world.workers.busy


def test_what_only_reads_is_not_ended(world: World) -> None:
    async def story() -> None:
        world.capture(2, 5.0, "dmesg")
        world.workers.end_profile(2)
        await asyncio.sleep(10.0)

    (result,) = world.live(story)
    assert result.outcome is not None and result.outcome.ok


def test_a_dead_engine_does_not_wait_for_a_profile(tmp_path: Path) -> None:
    stand = DriverStand(tmp_path, PROFILE_AND_RESCUE)
    stand.captures = SlowCaptures()
    stand.begin()
    server = stand.here.stand.server

    async def story() -> None:
        stand.fires(playbook="slow")
        await stand.ticks(5, 50.0)
        server.run = replace(server.run, ends_at=stand.now, exit_code=-9)
        server.settle()
        stand.fires(playbook="dead")
        await stand.ticks(20, 50.0)

    stand.here.stand.live(story())
    slow, dead = stand.runs
    assert (slow.state, stand.captures.taken) == ("abandoned", ["plog"])
    assert "gave way to run 2" in (slow.reason or "")
    assert server.starts == 1, (dead.state, dead.reason)


def test_an_act_whose_time_was_over_before_its_turn_is_not_done(world: World) -> None:
    async def story() -> None:
        world.capture(1, 100.0)
        await asyncio.sleep(1.0)
        world.campaign.running = True
        world.act(2, timeout=10.0)
        await asyncio.sleep(120.0)

    late, refused = world.live(story)
    assert late.outcome is not None and "not over within 15 s" in late.outcome.text
    assert refused.refused is not None and "its time was over" in refused.refused
    assert world.deed.done == []
    assert world.campaign.running, "nothing is ended for what is not done"


def test_the_time_of_an_act_runs_while_its_own_run_is_held_up(world: World) -> None:
    world.captures.more = 100.0

    async def story() -> None:
        world.capture(2, 5.0, "dmesg")
        await asyncio.sleep(70.0)
        world.act(2, timeout=10.0)
        await asyncio.sleep(60.0)

    assert world.live(story)[-1].refused is not None
    assert world.deed.done == []


def test_a_pause_meanwhile_stops_what_waits_but_not_what_is_put_back(world: World) -> None:
    async def story() -> None:
        world.capture(1, 20.0)
        await asyncio.sleep(1.0)
        world.act(2, timeout=60.0)
        world.capture(3, 5.0)
        world.halted = "paused"
        await asyncio.sleep(30.0)
        world.workers.begin(
            UndoAct(2, 3, 1, Action("scale_up", {}, 60.0), {"hook": "scale_down"}), context(2)
        )
        await asyncio.sleep(5.0)

    refused, undone = world.live(story)
    assert refused.refused == "paused"
    assert undone.outcome is not None and undone.outcome.ok
    assert world.deed.done == ["undo of run-2"]
    assert world.captures.taken == ["msprof"]


def test_a_pause_while_the_way_is_cleared_stops_the_act(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = DriverStand(tmp_path)
    before = stand.here.values()
    stand.campaign.running = True

    async def stop(*_: object, **__: object) -> None:
        stand.campaign.running = False
        stand.modes.pause()

    monkeypatch.setattr(stand.campaign, "stop", stop)

    async def story() -> None:
        stand.heat(91.0)
        stand.fires()
        await stand.ticks(10, 91.0)

    stand.here.stand.live(story())
    (run,) = stand.runs
    assert run.state == "failed"
    assert "paused" in (run.reason or "")
    assert stand.here.values() == before
