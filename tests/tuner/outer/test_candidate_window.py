"""How long a candidate may serve: in the maintenance window, and while somebody is asked whether it stays."""

from __future__ import annotations

import pytest

from tests.tuner.outer.outer_world import World, by_block, walk
from tuner.messages import Observation
from tuner.outer.campaign import ANSWER_SECONDS
from tuner.outer.messages import Agree, Await, Hold, Restart
from tuner.outer.stint import Stint


def test_the_maintenance_window_is_waited_for_with_the_incumbent_in_force() -> None:
    world = walk(by_block(b64=0.4))
    world.open = lambda now: now > 20_000.0
    report = world.run()
    assert report["decision"] == "promoted"
    first = next(i for i, c in enumerate(world.said) if isinstance(c, Restart))
    assert sum(isinstance(c, Await) for c in world.said[:first]) > 20


def test_a_window_that_closes_over_a_candidate_brings_the_incumbent_back() -> None:
    world = walk(by_block(b64=0.4))
    world.open = lambda now: not any(isinstance(c, Restart) for c in world.said)
    report = world.run()
    assert report["decision"] == "inconclusive" and world.served() == [1, 0]


@pytest.mark.parametrize("answers", range(1, 5))
def test_a_window_that_closes_at_any_answer_of_a_candidate_brings_the_incumbent_back_at_once(
    answers: int,
) -> None:
    world = walk(by_block(b64=0.4))

    def open_at(now: float) -> bool:
        first = next((i for i, c in enumerate(world.said) if isinstance(c, Restart)), None)
        return first is None or len(world.said) - first <= answers

    world.open = open_at
    report = world.run()
    assert report["decision"] == "inconclusive" and "window closed" in report["reasons"][-1]
    assert world.served() == [1, 0]
    assert [type(c) for c in world.said[-2:]] == [Restart, Hold]
    first = next(i for i, c in enumerate(world.said) if isinstance(c, Restart))
    # Those answered with the window open, the one that found it closed, and the two that go home.
    assert len(world.said) - first == answers + 1 + 2


def test_no_candidate_is_started_that_the_window_has_no_room_for() -> None:
    day = 86_400.0
    # Open for less than two restarts of 15 minutes (the mean of what is allowed) and a stint of 15.
    world = walk(by_block(b64=0.4))
    world.open = lambda now: now % day < 40 * 60.0
    report = world.run()
    assert report["decision"] == "kept" and "long enough" in report["reasons"][-1]
    assert world.served() == []


def test_a_promotion_in_its_probation_is_left_to_the_probation_when_the_window_closes() -> None:
    world = walk(by_block(b64=0.4))
    world.open = lambda now: not any(isinstance(c, Restart) and c.kind == "promotion" for c in world.said)
    assert world.run()["decision"] == "promoted"


def unanswered() -> World:
    world = walk(by_block(b64=0.4))
    world.agrees = False
    return world


def test_a_promotion_that_nobody_agrees_to_goes_back_after_a_bounded_wait() -> None:
    world = unanswered()
    report = world.run()
    assert report["decision"] == "inconclusive" and "nobody agreed" in report["reasons"][-1]
    asked = [at for at, c in world.times if isinstance(c, Agree)]
    assert asked[-1] - asked[0] <= ANSWER_SECONDS
    assert world.served()[-1] == 0 and report["cold"]["winner"] is None


def test_a_window_that_closes_while_nobody_answers_brings_the_incumbent_back() -> None:
    world = unanswered()
    world.open = lambda now: not any(isinstance(c, Agree) for c in world.said)
    report = world.run()
    assert report["decision"] == "inconclusive" and "window closed" in report["reasons"][-1]
    assert world.served()[-1] == 0 and sum(isinstance(c, Agree) for c in world.said) == 1


def test_a_guard_that_breaks_while_nobody_answers_brings_the_incumbent_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = unanswered()

    def alarmed(stint: Stint, now: float, seen: Observation) -> None:
        stint.alarm, stint.over = "a queue stands", True

    monkeypatch.setattr(Stint, "step", alarmed)
    report = world.run()
    assert report["decision"] == "aborted" and "a queue stands" in report["reasons"][-1]
    assert world.served()[-1] == 0 and sum(isinstance(c, Agree) for c in world.said) == 1


def test_what_is_left_of_a_window_is_for_the_alternation_and_not_for_another_candidate() -> None:
    world = walk(by_block(b64=0.4, b32=0.2))

    def open_at(now: float) -> bool:
        restarts = [at for at, c in world.times if isinstance(c, Restart)]
        # After the first candidate came up: time for one more restart. Then the next day.
        return not restarts or len(restarts) > 1 or now < restarts[0] + 4 * 600.0

    world.open = open_at
    assert world.run()["decision"] == "promoted"
    assert world.served() == [1, 0, 1, 1]
