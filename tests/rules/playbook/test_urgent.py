"""A dead engine waits for nobody: not for others' cool-downs, not for who verifies, not for the hour's limit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import rules
from collectors.sample import labels
from rules.actions import Action, Outcome, Plan
from rules.playbook.load import load
from rules.playbook.messages import EndProfile, TakeCapture
from rules.playbook.rails import Limits
from rules.playbook.recovery import LOAD_SECONDS
from rules.playbook.undoing import SLOW_SECONDS
from store import Store
from store.alert_models import PlaybookRun, RunAct
from tests.rules.playbook.stand import FakeEngine, Stand, alert, playbooks

BOOKS = """
playbooks:
  - name: queue
    title: Queue
    description: A larger batch.
    cooldown: 45min
    steps:
      - {name: queue, check: q > 50}
      - {name: away, act: {kind: traffic_away}, timeout: 20s}
      - {name: expand, act: {kind: set_knobs, arguments: {max_num_seqs: x1.5}}, timeout: 20s}
      - {name: shorter, verify: q < 50, for: 60s, within: 20min}
  - name: slow
    title: Slow
    description: What takes so long.
    cooldown: 45min
    steps:
      - {name: trace, capture: msprof, seconds: 60}
      - {name: cause, diagnose: it is in the profile, cause: unknown}
  - name: dead
    title: Dead
    description: Started again.
    cooldown: 3min
    urgent: true
    steps:
      - {name: down, check: 'trimtab_collector_success == 0'}
      - {name: restart, act: {kind: restart}, timeout: 1h, failed: tell}
      - {name: back, verify: 'trimtab_collector_success == 1', within: 10min, 'yes': end:succeeded, "no": tell}
      - {name: tell, act: {kind: notify, arguments: {text: dead}}, then: end:failed}
"""


class Traffic(FakeEngine):
    """Counts the traffic too, and can be put back only while it answers."""

    def __init__(self, stand: Stand) -> None:
        super().__init__()
        self.stand = stand
        self.replicas_away = 0
        self.up = True
        self.back_at: list[float] = []

    def plan(self, action: Action) -> Plan:
        if action.kind == "traffic_away":
            return Plan("traffic away", "service", True, {"hook": "traffic_back"})
        return super().plan(action)

    def act(self, action: Action) -> Outcome:
        if action.kind == "traffic_away":
            self.replicas_away = 1
            return Outcome(True, "away")
        if action.kind == "restart":
            self.values = dict(self.first)
        return super().act(action)

    def undo(self, undo: Mapping[str, Any]) -> Outcome:
        if "hook" in undo:
            assert self.up, "requests go to an engine that does not answer"
            self.replicas_away = 0
            self.back_at.append(self.stand.now)
            return Outcome(True, "back")
        return super().undo(undo) if self.up else Outcome(False, "the engine cannot be asked: it loads")


class World(Stand):
    def __init__(self, store: Store, limits: Limits | None = None) -> None:
        super().__init__(store, playbooks(BOOKS), limits)
        self.engine: Traffic = Traffic(self)

    def live(self, seconds: float, *, up: bool, queue: float = 100.0) -> None:
        self.engine.up = up
        for _ in range(int(seconds / 5)):
            self.board.readings["q", labels()] = (self.now + 5, queue)
            self.board.readings["trimtab_collector_success", labels(collector="vllm")] = (
                self.now + 5,
                float(up),
            )
            self.tick()

    def queue(self) -> None:
        self.live(5, up=True)
        self.runner.take([alert(playbook="queue", fingerprint="q")], self.now)
        self.live(40, up=True)
        assert self.engine.values["max_num_seqs"] == 384

    def dies(self) -> None:
        fired = alert(playbook="dead", fingerprint="d", started=self.now, window_seconds=15.0)
        self.runner.take([fired], self.now)

    def revived(self, within: float) -> None:
        restarts = self.engine.restarts
        self.dies()
        begun = self.now
        while self.engine.restarts == restarts:
            self.live(5, up=False)
            assert self.now - begun <= within, [
                (run.state, run.reason) for run in self.runner.status(self.now).runs
            ]


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


def test_it_does_not_wait_for_the_rest_after_another_run(world: World) -> None:
    world.queue()
    world.live(90, up=True, queue=10)
    assert world.run().state == "succeeded"
    assert world.runner.allows("dead", "restart", world.now)
    world.revived(within=20)


def test_it_ends_who_verifies_and_that_is_put_back_once_the_engine_serves(world: World) -> None:
    world.queue()
    world.revived(within=20)
    assert world.engine.replicas_away == 1
    world.live(60, up=False)  # it loads
    assert world.engine.replicas_away == 1
    world.live(120, up=True)
    queue, dead = world.rows(PlaybookRun)
    assert dead.state == "succeeded"
    assert queue.state == "rolled_back"
    assert "gave way to run 2 (dead)" in queue.reason
    assert world.engine.replicas_away == 0
    assert world.engine.values == world.engine.first


def test_a_profile_of_who_gives_way_is_ended(world: World) -> None:
    world.lost.add(TakeCapture)
    world.runner.take([alert(playbook="slow", fingerprint="s")], world.now)
    world.live(30, up=True)
    assert world.of(EndProfile) == []
    world.revived(within=20)
    assert world.of(EndProfile) == [EndProfile(1)]
    assert world.rows(PlaybookRun)[0].state == "abandoned"


def test_what_can_be_put_back_at_once_is_before_it_begins(world: World) -> None:
    world.queue()
    world.dies()
    # It answers, so that its values can be put back, and stands still.
    world.live(25, up=True)
    assert world.engine.values == world.engine.first
    assert world.rows(PlaybookRun)[0].state == "rolled_back"


def test_it_is_not_ended_by_one_that_waits(world: World) -> None:
    world.revived(within=20)
    world.runner.take([alert(playbook="queue", fingerprint="q")], world.now)
    world.live(30, up=False)
    assert [run.state for run in world.rows(PlaybookRun)] == ["verifying", "queued"]


def test_the_hours_limit_is_for_others(store: Store) -> None:
    world = World(store, Limits(acts_per_hour=2))
    world.queue()
    assert world.runner.status(world.now).acts_left == 0
    assert world.runner.allows("dead", "restart", world.now)
    world.revived(within=20)


def test_a_walk_that_only_looked_holds_up_no_rescue(world: World) -> None:
    world.live(5, up=True)
    world.dies()
    world.live(5, up=True)  # it still answered
    assert world.run().state == "inconclusive"
    assert world.runner.allows("dead", "restart", world.now)
    world.revived(within=20)


def test_one_that_has_restarted_rests(world: World) -> None:
    world.revived(within=20)
    world.live(60, up=True)
    assert not world.runner.allows("dead", "restart", world.now)
    world.dies()
    world.live(60, up=False)
    assert world.engine.restarts == 1


def test_it_is_started_again_after_minutes_and_left_after_three_times(world: World) -> None:
    for _ in range(3):
        world.revived(within=190)
        world.live(60, up=True)
        assert world.run().state == "succeeded"
    assert world.runner.status(world.now).gave_up is None
    world.live(180, up=True)
    assert not world.runner.allows("dead", "restart", world.now)
    world.dies()
    world.live(400, up=False)
    assert world.engine.restarts == 3
    assert world.run().state == "failed"
    assert world.engine.told == ["dead"]
    assert "restarted 3 times within an hour" in str(world.runner.status(world.now).gave_up)
    world.now += 3600
    assert world.runner.status(world.now).gave_up is None


def test_after_a_crash_nothing_goes_back_before_the_engine_serves(world: World) -> None:
    world.queue()
    world.crash()
    world.live(600, up=False)
    assert world.engine.replicas_away == 1
    world.live(30, up=True)
    assert world.engine.replicas_away == 0
    assert (world.run().state, world.engine.values) == ("rolled_back", world.engine.first)


def test_after_a_crash_a_dead_engine_is_started_again_first(world: World) -> None:
    world.queue()
    world.crash()
    world.live(30, up=False)
    world.revived(within=20)
    world.live(60, up=True)
    assert [run.state for run in world.rows(PlaybookRun)] == ["rolled_back", "succeeded"]


def test_what_is_stuck_is_tried_for_hours_and_told(world: World) -> None:
    world.queue()
    world.engine.stuck = True
    world.crash()
    world.live(600, up=True)
    assert "does not answer" in world.runner.status(world.now).stuck[1]
    assert world.run().ended is None
    world.engine.stuck = False
    world.live(400, up=True)
    assert world.run().state == "rolled_back"
    assert world.runner.status(world.now).stuck == {}


def test_but_not_for_ever(world: World) -> None:
    world.queue()
    world.engine.stuck = True
    world.crash()
    world.live(SLOW_SECONDS + 900, up=True)
    assert world.run().state == "failed"
    assert "could not be put back, do it by hand: expand" in world.run().reason
    assert {act.step: act.state for act in world.rows(RunAct)} == {"away": "undone", "expand": "done"}


def test_an_engine_that_never_comes_is_not_waited_for_for_ever(world: World) -> None:
    world.queue()
    world.crash()
    world.engine.undo = lambda undo: Outcome(False, "gone")  # type: ignore[method-assign]
    world.live(5, up=False)
    world.live(LOAD_SECONDS + SLOW_SECONDS + 900, up=False)
    assert world.run().state == "failed"


def test_those_that_ship_for_an_engine_that_is_gone_are_urgent() -> None:
    found = load([Path(rules.__file__).with_name("playbooks") / "engine.yaml"])
    urgent = {name: one.cooldown for name, one in found.items() if one.urgent}
    assert urgent == {"engine_dead": 180, "engine_stall": 180}
