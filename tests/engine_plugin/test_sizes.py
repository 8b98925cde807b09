"""Priority by size: who is ranked, who is left alone, and what is left when it is off again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab_plugin.control import Controller
from trimtab_plugin.sizes import LONG_FIRST, OFF, PRIORITY, SHORT_FIRST, rank

from sim import queue
from tests.engine_plugin.fake_engine import Clock, FakeScheduler, knobs, run_until_idle
from tests.engine_plugin.priority_scheduler import PriorityScheduler, Request


def request(name: str, prompt: int, *, priority: int = 0, arrival: float = 0.0) -> Request:
    return Request(prompt, 2, priority=priority, arrival_time=arrival, request_id=name)


def switched(controller: Controller, mode: int, **more: Any) -> dict[str, Any]:
    epoch = controller.call({"op": "state"})["epoch"]
    return controller.call(knobs({PRIORITY: mode}, epoch, **more))


@pytest.mark.parametrize(
    ("mode", "prompt", "expected"),
    [
        (LONG_FIRST, 2049, 16),
        (LONG_FIRST, 2048, 32),
        (LONG_FIRST, 513, 32),
        (LONG_FIRST, 512, 64),
        (LONG_FIRST, 1, 64),
        (SHORT_FIRST, 2049, 64),
        (SHORT_FIRST, 513, 32),
        (SHORT_FIRST, 512, 16),
    ],
)
def test_the_guides_classes(mode: int, prompt: int, expected: int) -> None:
    assert rank(mode, prompt) == expected


@pytest.mark.parametrize("prompt", [1, 512, 513, 2048, 2049, 8000])
def test_the_simulator_has_the_same_classes(prompt: int) -> None:
    assert queue.rank("long_first", prompt) == rank(LONG_FIRST, prompt)
    assert queue.rank("short_first", prompt) == rank(SHORT_FIRST, prompt)
    assert queue.rank("fcfs", prompt) == 0


def test_it_is_off_until_it_is_asked_for() -> None:
    scheduler = PriorityScheduler()
    controller = Controller(scheduler)
    assert controller.call({"op": "state"})["values"][PRIORITY] == OFF
    assert "add_request" not in scheduler.__dict__
    one = request("a", 4000)
    scheduler.add_request(one)
    assert one.priority == 0


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (LONG_FIRST, ["long", "medium", "short", "shorter"]),
        (SHORT_FIRST, ["short", "shorter", "medium", "long"]),
    ],
)
def test_requests_are_served_by_class_and_in_a_class_as_they_came(mode: int, expected: list[str]) -> None:
    scheduler = PriorityScheduler()
    controller = Controller(scheduler)
    assert switched(controller, mode)["effective"] == {PRIORITY: mode}
    for place, (name, prompt) in enumerate(
        {"short": 500, "long": 3000, "shorter": 20, "medium": 1000}.items()
    ):
        scheduler.add_request(request(name, prompt, arrival=place))
    assert scheduler.order() == expected


@pytest.mark.parametrize("priority", [-1, 1, 7, 2**63 - 1])
def test_a_priority_of_the_client_is_never_touched(priority: int) -> None:
    scheduler = PriorityScheduler()
    controller = Controller(scheduler)
    switched(controller, LONG_FIRST)
    own = request("own", 4000, priority=priority)
    scheduler.add_request(own)
    assert own.priority == priority
    switched(controller, SHORT_FIRST)
    switched(controller, OFF)
    assert own.priority == priority


def test_those_that_wait_follow_the_switch_and_off_leaves_nothing_behind() -> None:
    scheduler = PriorityScheduler()
    controller = Controller(scheduler)
    switched(controller, LONG_FIRST)
    requests = [request(f"{i}", prompt, arrival=i) for i, prompt in enumerate((100, 3000, 600, 200))]
    for one in requests:
        scheduler.add_request(one)
    switched(controller, SHORT_FIRST)
    assert [one.priority for one in requests] == [16, 64, 32, 16]
    switched(controller, OFF)
    assert [one.priority for one in requests] == [0, 0, 0, 0]
    assert scheduler.order() == ["0", "1", "2", "3"]
    assert "add_request" not in scheduler.__dict__


def test_a_lease_that_runs_out_switches_it_off() -> None:
    clock = Clock()
    scheduler = PriorityScheduler()
    controller = Controller(scheduler, clock=clock, wall=clock)
    switched(controller, LONG_FIRST, lease_seconds=10)
    waiting = request("a", 3000)
    scheduler.add_request(waiting)
    assert waiting.priority == 16
    clock.now += 11
    scheduler.schedule()
    assert controller.call({"op": "state"})["values"][PRIORITY] == OFF
    assert waiting.priority == 0
    assert "add_request" not in scheduler.__dict__


@pytest.mark.parametrize("policy", ["fcfs", "other"])
def test_another_policy_refuses_it_and_says_how_to_start(policy: str) -> None:
    scheduler = PriorityScheduler(policy)
    controller = Controller(scheduler)
    assert PRIORITY not in controller.call({"op": "state"})["values"]
    answer = switched(controller, LONG_FIRST)
    assert answer["code"] == 422
    assert f"policy is {policy}" in answer["error"]
    assert "--scheduling-policy priority" in answer["error"]
    assert "add_request" not in scheduler.__dict__


def test_a_scheduler_that_has_no_policy_refuses_it() -> None:
    answer = switched(Controller(FakeScheduler()), LONG_FIRST)
    assert answer["code"] == 422 and "policy is unknown" in answer["error"]


def test_a_build_whose_queue_was_not_checked_refuses_it_and_takes_other_knobs() -> None:
    controller = Controller(PriorityScheduler(), queue_refusal="how this build queues was not checked")
    answer = switched(controller, LONG_FIRST)
    assert answer["code"] == 422 and "was not checked" in answer["error"]
    assert controller.call(knobs({"max_num_seqs": 32}, 0))["status"] == "applied"


@pytest.mark.parametrize("value", [3, -1])
def test_there_are_three_positions(value: int) -> None:
    answer = switched(Controller(PriorityScheduler()), value)
    assert answer["code"] == 422 and "from 0 to 2" in answer["error"]


class Unreadable(Request):
    """Its length cannot be read."""

    @property
    def num_prompt_tokens(self) -> int:
        raise RuntimeError("no length")


def test_a_failure_leaves_the_request_as_it_was_and_switches_it_off() -> None:
    scheduler = PriorityScheduler()
    controller = Controller(scheduler)
    switched(controller, LONG_FIRST)
    earlier = request("earlier", 3000)
    scheduler.add_request(earlier)
    bad = Unreadable(10, 2)
    scheduler.add_request(bad)
    assert bad.priority == 0
    assert bad.request_id in scheduler.requests
    assert earlier.priority == 0
    assert controller.call({"op": "state"})["values"][PRIORITY] == OFF
    answer = switched(controller, SHORT_FIRST)
    assert answer["code"] == 422 and "no length" in answer["error"]
    assert switched(controller, OFF)["status"] == "applied"
    assert len(run_until_idle(scheduler)) > 0 and scheduler.finished == 2


def test_the_next_piece_of_a_streamed_prompt_is_no_new_request() -> None:
    scheduler = PriorityScheduler()
    controller = Controller(scheduler)
    first = request("session", 100)
    scheduler.add_request(first)
    switched(controller, LONG_FIRST)
    again = request("session", 3000)
    scheduler.add_request(again)
    assert (first.priority, again.priority) == (0, 0)


@given(
    events=st.lists(
        st.one_of(
            st.tuples(st.just("arrive"), st.integers(1, 5000), st.sampled_from([0, 0, 0, 5, -3])),
            st.tuples(
                st.just("switch"), st.sampled_from([OFF, LONG_FIRST, SHORT_FIRST]), st.none() | st.just(5.0)
            ),
            st.tuples(st.just("step"), st.integers(1, 4), st.floats(0, 6)),
        ),
        max_size=40,
    )
)
@settings(max_examples=150, deadline=None)
def test_nobody_is_lost_and_the_queue_is_always_in_order(events: list[Any]) -> None:
    clock = Clock()
    scheduler = PriorityScheduler(max_model_len=8192)
    controller = Controller(scheduler, clock=clock, wall=clock)
    given_by_client: dict[str, int] = {}
    for kind, first, second in events:
        if kind == "arrive":
            one = Request(first, 2, priority=second, arrival_time=clock.now)
            given_by_client[one.request_id] = second
            scheduler.add_request(one)
        elif kind == "switch":
            switched(controller, first, lease_seconds=second)
        else:
            for _ in range(first):
                scheduler.schedule()
            clock.now += second
        heap = scheduler.waiting._heap
        assert all(not heap[i] < heap[(i - 1) // 2] for i in range(1, len(heap)))
    mode = controller.call({"op": "state"})["values"][PRIORITY]
    for one in scheduler.requests.values():
        own = given_by_client[one.request_id]
        assert one.priority == own if own else one.priority in (0, rank(mode, one.prompt) if mode else 0)
    run_until_idle(scheduler)
    assert scheduler.finished == len(given_by_client)
