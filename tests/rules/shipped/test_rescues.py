"""Shipped rescues whose restart is refused, fails or is not needed any more: who is told, and what is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from collectors.sample import labels
from rules.actions import Action, Outcome
from rules.playbook.schema import Act
from store import open_store
from tests.rules.playbook.stand import FakeEngine, Stand, alert
from tests.rules.shipped.test_shipped_playbooks import PLAYBOOKS

OWN_START = "its own start is under way: whoever started it is waited for"
PAGE = ("trimtab_collector_success", labels(collector="vllm"))
STANDS = ("trimtab_engine_stalled_seconds", labels(engine="0"))
RESTARTED = ("trimtab_restart_time_seconds", labels())
RESTARTING = ("trimtab_restart_active", labels())
NO_MEMORY = ("trimtab_log_event_time_seconds", labels(signature="npu_out_of_memory", severity="error"))


class Broken(FakeEngine):
    """An engine that answers once it was restarted, unless that fails too."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def act(self, action: Action) -> Outcome:
        if action.kind == "restart":
            self.world.restarted = self.world.now
            if self.fails is not None:
                self.restarts += 1
                return Outcome(False, self.fails)
            self.world.serves, self.world.stands = True, 0.0
        failed, self.fails = self.fails, None
        done = super().act(action)
        self.fails = failed
        return done


class World(Stand):
    """`live` lets time pass with fresh readings, until something holds or the run has ended."""

    serves = False
    stands = 0.0
    restarted: float | None = None
    memory_line: float | None = None

    def live(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = self.now + seconds
        while self.now < end and not until() and not self.runner.idle:
            at = self.now + 5.0
            self.board.readings[PAGE] = (at, float(self.serves))
            self.board.readings[STANDS] = (at, self.stands)
            self.board.readings[RESTARTING] = (at, 0.0)
            for key, value in ((RESTARTED, self.restarted), (NO_MEMORY, self.memory_line)):
                if value is not None:
                    self.board.readings[key] = (at, value)
            self.tick()

    def begin(self, playbook: str) -> None:
        self.runner.take([alert(playbook=playbook, labels=labels(alertname="A"))], self.now)


@pytest.fixture
def world() -> Iterator[World]:
    store = open_store("sqlite:///:memory:")
    made = World(store, PLAYBOOKS)
    made.engine = Broken(made)
    # It served; only conditions over a long range read so far back.
    made.board.readings["trimtab_collector_success", labels(collector="sglang")] = (made.now - 600, 1.0)
    yield made
    store.close()


def test_every_rescue_is_refused_for_an_engine_that_serves() -> None:
    for playbook in PLAYBOOKS.values():
        for step in playbook.steps:
            if playbook.urgent and isinstance(step, Act) and step.act.kind == "restart":
                assert step.act.arguments.when == "down", f"{playbook.name}: {step.name}"


def test_somebodys_own_start_that_ends_well_is_left_to_it(world: World) -> None:
    world.engine.refuses["restart"] = OWN_START
    world.begin("engine_dead")
    world.live(300)
    assert world.run().state == "running"
    assert len(world.engine.told) == 1
    world.serves = True
    world.live(60)
    assert world.run().state == "inconclusive"
    assert world.engine.restarts == 0


@pytest.mark.parametrize("memory", [False, True], ids=["no line", "ended for want of memory"])
def test_somebodys_own_start_that_hangs_is_restarted_once_that_is_allowed(world: World, memory: bool) -> None:
    if memory:
        world.memory_line = world.now - 300
    world.engine.refuses["restart"] = OWN_START
    world.begin("engine_dead")
    world.live(7000)
    assert world.run().state == "running"
    world.engine.refuses.clear()
    world.live(900)
    assert world.run().state == "succeeded"
    assert world.engine.restarts == 1
    assert len(world.engine.told) == 1


def test_a_line_that_says_why_the_start_ended_is_left_to_its_own_playbook(world: World) -> None:
    world.engine.refuses["restart"] = OWN_START
    world.begin("engine_dead")
    world.live(120)
    world.memory_line = world.now
    world.live(30)
    assert world.run().state == "inconclusive"


@pytest.mark.parametrize("memory", [False, True], ids=["the same", "smaller"])
def test_a_restart_that_failed_is_told_and_not_made_again(world: World, memory: bool) -> None:
    if memory:
        world.memory_line = world.now - 300
    world.engine.fails = "the engine ended in its start"
    world.begin("engine_dead")
    world.live(3600)
    assert world.run().state == "failed"
    assert world.engine.restarts == 1
    (told,) = world.engine.told
    assert "could not be started again" in told
    assert world.run().cause == ("oom_at_load" if memory else "dead_engine")


def test_one_that_is_refused_for_good_is_told_at_once_and_has_an_end(world: World) -> None:
    world.engine.refuses["restart"] = "nothing here may restart the engine"
    world.begin("engine_dead")
    world.live(60, lambda: bool(world.engine.told))
    assert "a restart was refused" in world.engine.told[0]
    world.live(5 * 3600)
    assert world.run().state == "failed"
    assert "longer than 4 h" in world.run().reason
    assert len(world.engine.told) == 1


def test_a_step_that_took_long_and_is_over_is_no_stall(world: World) -> None:
    world.serves, world.stands = True, 25.0
    world.engine.refuses["restart"] = "it serves: this restart is for an engine that is dead or stalled"
    world.begin("engine_stall")
    world.live(30)
    world.stands = 0.0
    world.live(60)
    assert world.run().state == "inconclusive"
    assert (world.engine.restarts, world.engine.told) == (0, [])


def test_one_that_goes_on_standing_still_is_told(world: World) -> None:
    world.serves, world.stands = True, 25.0
    world.engine.refuses["restart"] = "nothing here may restart the engine"
    world.begin("engine_stall")
    world.live(300)
    assert world.run().state == "failed"
    assert "stands still" in world.engine.told[0]
