"""Epochs, leases and the step wrapper of one engine process."""

from __future__ import annotations

import os
from typing import Any

import pytest
from trimtab_plugin.control import Controller
from trimtab_plugin.knobs import SchedulerKnobs

from tests.engine_plugin.fake_engine import Clock, FakeRequest, FakeScheduler, knobs

STATE = {"op": "state"}


class Engine:
    """A controller over a fake scheduler, on clocks moved by hand."""

    def __init__(self, **scheduler: Any) -> None:
        self.clock = Clock()
        self.wall = Clock(5000.0)
        self.scheduler = FakeScheduler(**scheduler)
        self.controller = Controller(self.scheduler, clock=self.clock, wall=self.wall)

    def set(self, if_epoch: int, lease: float | None = None, **values: float) -> dict[str, Any]:
        return self.controller.call(knobs(values, if_epoch, lease_seconds=lease))

    def state(self) -> dict[str, Any]:
        return self.controller.call(STATE)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.wall.now += seconds

    def wrapped(self) -> bool:
        return "schedule" in vars(self.scheduler)


def test_a_change_is_applied_in_the_call_and_begins_an_epoch() -> None:
    engine = Engine()
    engine.pass_time(7)
    answer = engine.set(0, batch_max_tokens=256)
    assert (answer["epoch"], answer["status"]) == (1, "applied")
    assert answer["requested"] == answer["effective"] == {"batch_max_tokens": 256}
    assert engine.scheduler.max_num_scheduled_tokens == 256
    assert engine.state()["history"] == [[0, 5000.0], [1, 5007.0]]


def test_a_stale_epoch_is_refused_with_the_current_one() -> None:
    engine = Engine()
    engine.set(0, batch_max_tokens=256)
    answer = engine.set(0, batch_max_tokens=512)
    assert (answer["code"], answer["epoch"]) == (409, 1)
    assert engine.scheduler.max_num_scheduled_tokens == 256


@pytest.mark.parametrize("values", [{"nonsense": 1}, {"batch_max_tokens": 99999}, {"max_num_seqs": 0}])
def test_a_bad_change_leaves_the_engine_as_it_was(values: dict[str, float]) -> None:
    engine = Engine()
    before = engine.state()
    assert engine.set(0, **values)["code"] == 422
    assert engine.state() == before
    assert not engine.wrapped()


def test_a_bad_value_to_go_back_to_is_refused_too() -> None:
    engine = Engine()
    answer = engine.controller.call(
        knobs({"batch_max_tokens": 256}, 0, lease_seconds=5, revert_to={"batch_max_tokens": 9999})
    )
    assert answer["code"] == 422
    assert answer["error"].startswith("revert_to: batch_max_tokens")


@pytest.mark.parametrize("by", ["step", "state", "change"])
def test_a_lease_that_ran_out_brings_the_incumbent_back_as_a_new_epoch(by: str) -> None:
    engine = Engine()
    engine.set(0, lease=30, batch_max_tokens=256)
    engine.pass_time(29.75)
    engine.scheduler.schedule(False)
    assert engine.scheduler.max_num_scheduled_tokens == 256
    engine.pass_time(0.5)
    if by == "step":
        engine.scheduler.schedule(False)
    elif by == "change":
        assert engine.set(1, batch_max_tokens=512)["code"] == 409
    state = engine.state()
    assert state["epoch"] == 2
    assert state["values"]["batch_max_tokens"] == 2048
    assert state["lease_remaining_seconds"] is None
    assert state["history"][-1] == [2, 5030.25]
    assert not engine.wrapped()


def test_a_lease_goes_back_to_the_values_it_names() -> None:
    engine = Engine()
    engine.controller.call(
        knobs({"batch_max_tokens": 256}, 0, lease_seconds=5, revert_to={"batch_max_tokens": 1024})
    )
    engine.pass_time(6)
    assert engine.state()["values"]["batch_max_tokens"] == 1024


def test_the_same_values_again_renew_the_lease_without_a_new_epoch() -> None:
    engine = Engine()
    engine.set(0, lease=30, batch_max_tokens=256)
    engine.pass_time(20)
    answer = engine.set(1, lease=30, batch_max_tokens=256)
    assert (answer["epoch"], answer["status"]) == (1, "applied")
    assert engine.state()["lease_remaining_seconds"] == 30
    engine.pass_time(31)
    assert engine.state()["values"]["batch_max_tokens"] == 2048


def test_a_second_candidate_under_a_lease_still_goes_back_to_the_incumbent() -> None:
    engine = Engine()
    engine.set(0, lease=30, batch_max_tokens=256)
    engine.set(1, lease=30, batch_max_tokens=512)
    engine.pass_time(31)
    assert engine.state()["values"]["batch_max_tokens"] == 2048


def test_the_same_values_without_a_lease_stay_for_good() -> None:
    engine = Engine()
    engine.set(0, lease=30, batch_max_tokens=256)
    assert engine.set(1, batch_max_tokens=256)["epoch"] == 1
    engine.pass_time(1000)
    state = engine.state()
    assert (state["epoch"], state["values"]["batch_max_tokens"]) == (1, 256)


def test_the_scheduler_is_wrapped_only_while_there_is_work_each_step() -> None:
    engine = Engine()
    engine.state()
    assert not engine.wrapped()
    engine.set(0, batch_max_tokens=256)
    assert not engine.wrapped()
    engine.set(1, lease=30, batch_max_tokens=512)
    assert engine.wrapped()
    engine.set(2, max_prefill_tokens=128, batch_max_tokens=2048)
    assert engine.wrapped()
    engine.set(3, max_prefill_tokens=0)
    assert not engine.wrapped()
    assert engine.scheduler.max_num_scheduled_tokens == 2048


@pytest.mark.parametrize("ratchet", [True, False])
def test_a_lower_running_cap_drains(ratchet: bool) -> None:
    engine = Engine(ratchet=ratchet)
    engine.scheduler.waiting = [FakeRequest(10, 5) for _ in range(30)]
    engine.scheduler.schedule(False)
    assert len(engine.scheduler.running) == 30
    answer = engine.set(0, max_num_seqs=2)
    assert (answer["status"], answer["effective"]) == ("draining", {"max_num_seqs": 2})
    engine.scheduler.waiting = [FakeRequest(10, 5) for _ in range(10)]
    while engine.scheduler.running or engine.scheduler.waiting:
        running = len(engine.scheduler.running)
        engine.scheduler.schedule(False)
        assert len(engine.scheduler.running) <= max(2, running)
    assert engine.scheduler.finished == 40
    assert engine.set(1, lease=5, max_num_seqs=2)["status"] == "applied"


def test_a_request_whose_sender_gave_up_is_not_carried_out() -> None:
    engine = Engine()
    answer = engine.controller.call({**knobs({"batch_max_tokens": 256}, 0), "expires": engine.wall.now - 1})
    assert answer["code"] == 504
    assert engine.state()["epoch"] == 0


def test_an_unknown_scheduler_answers_reads_and_refuses_changes_with_the_reason() -> None:
    scheduler = FakeScheduler()
    controller = Controller(scheduler, name="a.B@0", refusal="nobody checked it")
    state = controller.call(STATE)
    assert (state["scheduler"], state["scheduler_known"]) == ("a.B@0", False)
    answer = controller.call(knobs({"batch_max_tokens": 256}, 0))
    assert (answer["status"], answer["reason"], answer["epoch"]) == ("refused", "nobody checked it", 0)
    assert answer["effective"] == {"batch_max_tokens": 2048}
    assert scheduler.max_num_scheduled_tokens == 2048


def test_a_fault_in_a_step_puts_the_launch_values_back_and_the_engine_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: SchedulerKnobs) -> None:
        raise AttributeError("running")

    engine = Engine(ratchet=True)
    engine.scheduler.waiting = [FakeRequest(10, 50) for _ in range(10)]
    engine.scheduler.schedule(False)
    engine.set(0, max_num_seqs=2, max_prefill_tokens=64)
    monkeypatch.setattr(SchedulerKnobs, "before_step", broken)
    engine.scheduler.schedule(False)
    assert not engine.wrapped()
    assert engine.scheduler.max_num_running_reqs == 64
    assert engine.scheduler.max_num_scheduled_tokens == 2048
    state = engine.state()
    assert (state["epoch"], state["values"]["max_num_seqs"]) == (2, 64)
    answer = engine.set(2, max_num_seqs=2)
    assert answer["status"] == "refused"
    assert "AttributeError" in answer["reason"]


def test_launch_values_that_cannot_be_put_back_still_leave_the_engine_its_own_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: SchedulerKnobs, *_: object) -> None:
        raise AttributeError("gone")

    engine = Engine()
    engine.set(0, lease=30, batch_max_tokens=256)
    monkeypatch.setattr(SchedulerKnobs, "before_step", broken)
    monkeypatch.setattr(SchedulerKnobs, "write", broken)
    engine.scheduler.schedule(False)
    assert not engine.wrapped()
    assert engine.set(2, batch_max_tokens=512)["status"] == "refused"


def test_the_boot_id_tells_engines_apart() -> None:
    first, second = (Engine().state()["boot_id"] for _ in range(2))
    pid, started, drawn = first.split("-")
    assert int(pid) == os.getpid()
    assert int(started) > 0
    assert len(drawn) == 16
    assert first.rsplit("-", 1)[0] == second.rsplit("-", 1)[0]
    assert first != second


def test_a_reset_goes_to_launch_values_under_the_epoch_given() -> None:
    engine = Engine()
    engine.set(0, lease=30, max_prefill_tokens=128)
    state = engine.controller.call({"op": "reset", "epoch": 9})
    assert (state["epoch"], state["values"]["max_prefill_tokens"]) == (9, 0)
    assert state["lease_remaining_seconds"] is None
    assert not engine.wrapped()
