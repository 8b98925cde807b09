"""The guardian: never two engines, and the kept command comes back when nobody finishes a change."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from change.server import LaunchCommand
from daemon.guardian.attendance import SILENT_SECONDS, TAKEOVER_SECONDS
from daemon.guardian.guard import (
    ENDING_SECONDS,
    LEFTOVERS_SECONDS,
    RESCUE_SECONDS,
    RETURN_GRACE_SECONDS,
    Phase,
    Refused,
)
from tests.daemon.guardian.virtual_run import DAEMON, KEPT, NEXT_DAEMON, OTHER, World


def test_without_an_order_its_end_is_the_engines() -> None:
    world = World()
    world.pass_time(10_000, step=100)
    assert world.code is None
    world.runs[0].code = 7
    world.pass_time(1)
    assert world.code == 7


def test_the_workers_of_an_engine_that_ended_by_itself_end_before_its_code_is_told() -> None:
    world = World()
    world.runs[0].workers = "stubborn"
    world.runs[0].code = 9
    world.pass_time(1)
    assert world.runs[0].workers == "gone"
    assert world.code == 9


def test_workers_that_nobody_can_kill_are_named_and_not_waited_for_for_ever() -> None:
    world = World()
    world.runs[0].workers = "stuck"
    world.runs[0].code = 9
    world.pass_time(LEFTOVERS_SECONDS - 2)
    codes = [world.code]
    world.pass_time(4)
    assert [*codes, world.code] == [None, 9]
    assert "cannot be killed" in world.said[-1]


def test_it_stays_while_the_engine_is_stopped_or_fails_by_order() -> None:
    world = World()
    world.changed()
    world.runs[1].code = 1
    world.pass_time(300)
    assert world.code is None
    world.start(KEPT)
    assert world.living == [world.runs[2]]


@pytest.mark.parametrize("when", ["stopped", "failed", "loading"])
def test_a_dead_daemon_that_none_follows_means_the_kept_command(when: str) -> None:
    world = World()
    world.changed()
    if when == "stopped":
        world.stop()
        world.pass_time(5)
    elif when == "failed":
        world.runs[1].code = 1
    world.alive.clear()
    world.pass_time(TAKEOVER_SECONDS - 5)
    assert [run.command for run in world.runs] == [KEPT, OTHER]
    world.pass_time(RETURN_GRACE_SECONDS)
    assert [run.command for run in world.living] == [KEPT]
    assert world.guard.phase is Phase.PROVEN
    assert "nobody finished the change" in world.said[-1]


def test_a_daemon_that_follows_in_time_keeps_the_engine_in_its_hands() -> None:
    world = World()
    world.changed()
    world.alive.discard(DAEMON)
    world.pass_time(TAKEOVER_SECONDS - 5)
    world.attendance.ordered(NEXT_DAEMON, world.now)
    world.pass_time(3600, step=10)
    assert [run.command for run in world.living] == [OTHER]
    assert world.guard.phase is Phase.UNPROVEN


def test_a_daemon_that_only_looks_has_not_taken_over() -> None:
    world = World()
    world.stop()
    world.pass_time(5)
    world.alive.discard(DAEMON)
    for _ in range(int(TAKEOVER_SECONDS) + 5):
        world.attendance.heard(NEXT_DAEMON, world.now)
        world.pass_time(1)
    assert [run.command for run in world.living] == [KEPT]


def test_a_living_daemon_may_take_its_time_as_long_as_it_asks() -> None:
    world = World()
    world.stop()
    for _ in range(10):
        world.pass_time(SILENT_SECONDS / 2, step=10)
        world.attendance.heard(DAEMON, world.now)
    assert world.living == []
    world.pass_time(SILENT_SECONDS + 20, step=10)
    assert [run.command for run in world.living] == [KEPT]


def test_the_kept_command_that_runs_already_is_left_alone() -> None:
    world = World()
    world.stop()
    world.pass_time(5)
    world.start(KEPT)
    world.alive.clear()
    world.pass_time(TAKEOVER_SECONDS + 5)
    assert len(world.runs) == 2
    assert world.guard.phase is Phase.PROVEN


def test_when_the_kept_command_fails_too_and_nobody_is_there_it_ends_with_its_code() -> None:
    world = World()
    world.stop()
    world.pass_time(5)
    world.start(KEPT)
    world.runs[1].code = 3
    world.alive.clear()
    world.pass_time(TAKEOVER_SECONDS + 5)
    assert world.code == 3
    assert len(world.runs) == 2


def test_what_is_kept_is_what_it_comes_back_to_and_its_end_is_the_end() -> None:
    world = World()
    world.changed()
    world.keep(OTHER)
    assert world.guard.phase is Phase.PROVEN
    world.alive.clear()
    world.pass_time(3600, step=10)
    assert world.living == [world.runs[1]]
    world.runs[1].code = 0
    world.pass_time(1)
    assert world.code == 0


def test_the_gate_that_a_start_begins_with_is_no_part_of_the_command() -> None:
    for command in (OTHER, KEPT):
        world = World()
        world.stop()
        world.pass_time(5)
        world.start(LaunchCommand(command.argv, {"TRIMTAB_GATE": "closed"}))
        world.keep(command)
        assert world.guard.phase is Phase.PROVEN
    world = World()
    world.stop()
    world.pass_time(5)
    world.start(LaunchCommand(KEPT.argv, {"TRIMTAB_GATE": "closed"}))
    world.alive.clear()
    world.pass_time(TAKEOVER_SECONDS + 5)
    assert len(world.runs) == 2
    assert world.guard.phase is Phase.PROVEN


def test_another_environment_is_another_command() -> None:
    world = World()
    world.stop()
    world.pass_time(5)
    world.start(LaunchCommand(KEPT.argv, {"HCCL_BUFFSIZE": "512"}))
    world.alive.clear()
    world.pass_time(TAKEOVER_SECONDS + RETURN_GRACE_SECONDS + 5)
    assert [run.command for run in world.living] == [KEPT]


def test_keeping_another_command_than_the_one_that_runs_proves_nothing() -> None:
    world = World()
    world.changed()
    world.keep(KEPT)
    assert world.guard.phase is Phase.UNPROVEN


def test_asked_to_end_while_no_engine_is_there_it_ends_at_once() -> None:
    world = World()
    world.stop()
    world.pass_time(5)
    world.guard.signal(signal.SIGTERM, ending=True)
    with pytest.raises(Refused, match="ending"):
        world.start()
    world.pass_time(1)
    assert world.code == 0


def test_asked_to_end_during_a_stop_or_a_start_it_ends_with_the_engine() -> None:
    world = World()
    world.stop()
    world.guard.signal(signal.SIGTERM, ending=True)
    world.pass_time(5)
    assert world.code == 0
    world = World()
    world.changed()
    world.guard.signal(signal.SIGTERM, ending=True)
    assert signal.SIGTERM in world.runs[1].signals
    world.pass_time(5)
    assert world.code is None
    world.runs[1].code = 143
    world.pass_time(1)
    assert world.code == 143


@pytest.mark.parametrize("insists", [True, False])
def test_an_engine_that_ignores_the_signal_is_killed_by_a_second_one_or_in_time(insists: bool) -> None:
    world = World()
    world.guard.signal(signal.SIGTERM, ending=True)
    world.guard.signal(signal.SIGHUP, ending=True)  # a supervisor's, at once
    world.pass_time(30 if insists else ENDING_SECONDS - 10)
    waited = world.code
    if insists:
        world.guard.signal(signal.SIGTERM, ending=True)
    world.pass_time(3 if insists else 20)
    assert waited is None
    assert world.code is not None
    assert world.living == []


def test_an_engine_that_ended_by_itself_is_left_to_a_daemon_that_said_it_would_start_it() -> None:
    world = World()
    world.guard.stay(20.0, world.now)
    world.runs[0].workers = "stubborn"
    world.runs[0].code = -9
    world.pass_time(30)
    assert world.code is None
    assert world.runs[0].workers == "gone"
    assert not world.guard.state(world.now).running
    world.stop()
    world.pass_time(1)
    world.start(KEPT)
    world.keep(KEPT)
    world.pass_time(10_000, step=100)
    assert world.living == [world.runs[1]]
    assert world.guard.phase is Phase.PROVEN


def test_one_that_nobody_starts_again_in_time_ends_the_guardian_with_its_code() -> None:
    world = World()
    world.guard.stay(20.0, world.now)
    world.runs[0].code = -9
    world.pass_time(RESCUE_SECONDS - 5)
    waited = world.code
    for _ in range(20):
        world.guard.stay(20.0, world.now)  # a word that is renewed is still only a word
        world.pass_time(1)
    assert (waited, world.code) == (None, -9)


@pytest.mark.parametrize("how", ["run out", "taken back", "never given"])
def test_without_the_word_its_end_is_the_engines_as_ever(how: str) -> None:
    world = World()
    if how != "never given":
        world.guard.stay(20.0, world.now)
    if how == "taken back":
        world.guard.stay(0.0, world.now)
    world.pass_time(30)
    world.runs[0].code = 7
    world.pass_time(1)
    assert world.code == 7


def test_a_word_that_is_taken_back_after_the_end_is_not_waited_for() -> None:
    world = World()
    world.guard.stay(20.0, world.now)
    world.runs[0].code = -9
    world.pass_time(3)
    assert world.code is None
    world.guard.stay(0.0, world.now)
    world.pass_time(1)
    assert world.code == -9


def test_asked_to_end_while_it_waits_for_the_daemon_it_ends() -> None:
    world = World()
    world.guard.stay(20.0, world.now)
    world.runs[0].code = -9
    world.pass_time(3)
    world.guard.signal(signal.SIGTERM, ending=True)
    world.pass_time(1)
    assert world.code == -9


def test_a_second_end_is_waited_for_as_long_as_the_first() -> None:
    world = World()
    world.guard.stay(300.0, world.now)
    for number in range(2):
        world.runs[number].code = -9
        world.pass_time(RESCUE_SECONDS - 20)
        assert world.code is None
        world.stop()
        world.pass_time(1)
        world.start(KEPT)
        world.keep(KEPT)
    assert world.living == [world.runs[2]]


class Orders(RuleBasedStateMachine):
    """Whatever is ordered, dies and passes: one engine at most, and left alone the kept command runs."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.kept = KEPT

    @precondition(lambda self: self.world.code is None)
    @rule(who=st.sampled_from([DAEMON, NEXT_DAEMON]))
    def stop(self, who: object) -> None:
        self.world.stop(DAEMON if who == DAEMON else NEXT_DAEMON)

    @precondition(lambda self: self.world.code is None)
    @rule(command=st.sampled_from([KEPT, OTHER]))
    def start(self, command: object) -> None:
        before = list(self.world.living)
        try:
            self.world.start(KEPT if command == KEPT else OTHER)
        except Refused:
            assert self.world.living == before
        else:
            assert before == []

    @precondition(lambda self: self.world.code is None)
    @rule()
    def keep(self) -> None:
        self.kept = self.world.guard.command
        self.world.keep(self.kept)

    @precondition(lambda self: self.world.living)
    @rule(code=st.sampled_from([0, 1, 137]))
    def crash(self, code: int) -> None:
        self.world.living[0].code = code

    @precondition(lambda self: self.world.code is None)
    @rule(seconds=st.sampled_from([0, 20]))
    def stay(self, seconds: int) -> None:
        self.world.guard.stay(float(seconds), self.world.now)

    @rule(seconds=st.sampled_from([1, 10, 100, 1000]))
    def wait(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    @rule()
    def left_alone(self) -> None:
        self.world.alive.clear()
        self.world.pass_time(TAKEOVER_SECONDS + RETURN_GRACE_SECONDS + 10)
        if self.world.code is None:
            assert [run.command for run in self.world.living] == [self.kept]
            assert self.world.guard.phase is Phase.PROVEN
        else:
            assert self.world.living == []
        self.world.alive.update({DAEMON, NEXT_DAEMON})

    @invariant()
    def one_at_most(self) -> None:
        assert len(self.world.living) <= 1


TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
