"""The walk of an outer loop: in which order engines serve, what a restart may cost, and that it always comes home."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from change.restart.order import Accuracy, Mismatch
from change.server import Settings
from tests.tuner.outer.outer_world import HOT, LAUNCH, by_block, walk
from tuner.outer.memory import Start, StartMemory
from tuner.outer.messages import Await, Check, Hold, OuterCommand, Restart, StartSeen, TuneHot
from tuner.outer.settings import OuterSettings


def test_two_candidates_are_screened_and_the_better_one_alternates_with_the_incumbent() -> None:
    world = walk(by_block(b64=0.4, b32=0.2))
    report = world.run()
    assert world.served() == [1, 2, 0, 1, 1]
    assert report["decision"] == "promoted" and report["restarts"] == 4
    assert report["cold"]["winner"]["block_size"] == 64
    assert report["cold"]["label"] == "not error-controlled"
    assert report["cold"]["effect"]["alternations"] == 2


def test_a_hot_campaign_runs_on_the_incumbent_and_inside_each_candidate_that_holds_up() -> None:
    world = walk(by_block(b64=0.4, b32=-0.3))
    world.run()
    assert [c.trial for c in world.said if isinstance(c, TuneHot)] == [None, 1]


def test_hot_values_stay_what_they_were_through_the_restarts() -> None:
    world = walk(by_block(b64=0.4))
    world.run()
    held = [command for command in world.said if isinstance(command, Hold)]
    assert held and all(command.values == HOT for command in held)
    assert [command.stands for command in held][-1] and not any(command.stands for command in held[:-1])


def test_nothing_better_comes_home_and_says_so() -> None:
    world = walk(by_block(b64=0.03, b32=0.0))
    report = world.run()
    assert world.served() == [1, 2, 0]
    assert report["decision"] == "kept" and report["cold"]["effective"] == LAUNCH
    assert [c.kind for c in world.said if isinstance(c, Restart)][-1] == "rollback"


def test_an_effect_that_does_not_come_back_is_not_promoted() -> None:
    seen: list[int] = []

    def worth(settings: Settings) -> float:
        seen.append(int(settings["block_size"]))
        return 0.3 if settings["block_size"] == 64 and seen.count(64) == 1 else 0.0

    report = walk(worth, restarts=3).run()
    assert report["decision"] == "kept" and report["cold"]["winner"] is None


def test_a_value_without_a_hold_is_invalid_before_it_is_measured() -> None:
    world = walk(by_block(b64=5.0, b32=5.0))
    world.mismatches = lambda settings: tuple(
        Mismatch(name, value, 128) for name, value in settings.items() if name == "block_size"
    )
    report = world.run()
    first = report["cold"]["trials"][0]
    assert first["state"] == "invalid" and "the engine has 128" in first["reason"] and first["effect"] is None
    assert all(t["requested"]["block_size"] == 128 for t in report["cold"]["trials"][1:])


def test_what_cannot_start_costs_no_restart() -> None:
    world = walk(allow=("swap_space",))
    world.problems = lambda settings: ("--swap-space is gone",) if "swap_space" in settings else ()
    report = world.run()
    refused = [t for t in report["cold"]["trials"] if "swap_space" in t["requested"]]
    assert len(refused) == 1 and refused[0]["state"] == "invalid" and "gone" in refused[0]["reason"]
    asked = [c for c in world.said if isinstance(c, Restart)]
    assert not any("swap_space" in c.settings for c in asked)


def test_a_failed_start_is_remembered_and_never_made_again() -> None:
    world = walk(by_block(b32=0.4))
    world.outcomes = [("returned", "NPU out of memory")]
    report = world.run()
    assert report["cold"]["trials"][0]["state"] == "invalid"
    asked = [
        tuple(sorted(c.settings.items())) for c in world.said if isinstance(c, Restart) and c.kind == "trial"
    ]
    assert asked.count(asked[0]) == 1
    again = walk(starts=[Start({**LAUNCH, **dict(asked[0])}, {}, "failed", "it hung")])
    again.run()
    assert asked[0] not in [tuple(sorted(c.settings.items())) for c in again.said if isinstance(c, Restart)]


def test_when_nothing_serves_nothing_more_is_tried() -> None:
    world = walk(by_block(b64=0.4))
    world.outcomes = [("down", "the last known good did not start")]
    report = world.run()
    assert report["decision"] == "aborted" and world.served() == [1]


def test_a_candidate_that_breaks_a_guard_is_left_and_the_incumbent_comes_back() -> None:
    world = walk(by_block(b64=0.4))
    world.mind.alarm = "3 requests failed"  # type: ignore[attr-defined]
    report = world.run()
    assert {t["state"] for t in report["cold"]["trials"]} == {"aborted"}
    assert world.served()[-1] == 0 and report["decision"] == "kept"


def test_probation_that_breaks_a_guard_goes_back() -> None:
    world = walk(by_block(b64=0.4))

    def break_it(command: OuterCommand) -> bool:
        if isinstance(command, Restart) and command.kind == "promotion":
            world.mind.alarm = "a queue stands"  # type: ignore[attr-defined]
        return False

    report = world.run(break_it)
    assert report["decision"] == "aborted" and "in probation" in report["reasons"][-1]
    assert world.served()[-1] == 0 and report["cold"]["winner"] is None


def test_lost_capacity_ends_the_screening() -> None:
    report = walk(by_block(b64=0.4, b32=0.3), lost_minutes=16.0).run()
    assert len(report["cold"]["trials"]) == 1 and report["restarts"] == 3


def test_answers_that_may_change_need_a_gate_that_was_passed() -> None:
    answers: tuple[Accuracy, ...] = ("not_asked", "failed", "passed")
    for passed in answers:
        allow: dict[str, Any] = {
            "allow": ("kv_cache_dtype",),
            "values": (("kv_cache_dtype", ("int8",)),),
            "gated": True,
        }
        world = walk(lambda s: 0.5 * (s.get("kv_cache_dtype") == "int8"), **allow)
        world.accuracy = passed
        report = world.run()
        assert (report["decision"] == "promoted") == (passed == "passed")


@pytest.mark.parametrize("kind", [Check, TuneHot, Restart, Hold, Await])
def test_a_stop_at_any_step_ends_with_the_incumbent(kind: type[OuterCommand]) -> None:
    for count in range(1, 6):
        world = walk(by_block(b64=0.4, b32=0.2))
        seen: list[OuterCommand] = []

        def stop_at(command: OuterCommand, seen: list[OuterCommand] = seen, count: int = count) -> bool:
            seen += [command] if isinstance(command, kind) else []
            return len(seen) == count and isinstance(command, kind)

        report = world.run(stop_at)
        if len(seen) < count:
            break
        assert report["decision"] == "aborted"
        served = world.served()
        assert not served or served[-1] == 0
        assert (0, 0) not in pairwise(served), "it was home, and was restarted once more"


def test_a_stop_while_a_start_fails_restarts_nothing_more() -> None:
    world = walk(by_block(b64=0.4, b32=0.2))
    world.outcomes = [("served", "it serves"), ("returned", "NPU out of memory")]
    world.run(lambda command: isinstance(command, Restart) and command.trial == 2)
    assert world.served() == [1, 2]
    assert [command.stands for command in world.said if isinstance(command, Hold)][-1]


def test_a_stop_while_a_promotion_is_made_takes_it_back() -> None:
    world = walk(by_block(b64=0.4, b32=0.2))
    world.run(lambda command: isinstance(command, Restart) and command.kind == "promotion")
    *_, promotion, back = (command for command in world.said if isinstance(command, Restart))
    assert (promotion.kind, back.kind) == ("promotion", "rollback")
    assert back.settings == {name: LAUNCH[name] for name in promotion.settings}


def test_a_person_may_allow_none_or_at_least_three_restarts() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        OuterSettings(2)


def test_the_incumbent_counts_as_a_start_that_served() -> None:
    world = walk(by_block(b64=0.4), [Start(LAUNCH, {}, "failed", "NPU out of memory")])
    assert world.run()["decision"] == "promoted"


def test_what_the_lane_takes_for_the_same_is_not_held_against_a_candidate_or_its_knobs() -> None:
    world = walk(by_block(b64=0.4, b32=0.2))
    spelled: Settings = {"gpu_memory_utilization": 0.8999, "batch_max_tokens": "8k"}
    world.effective = lambda settings: {**LAUNCH, **settings, **spelled}
    report = world.run()
    assert report["decision"] == "promoted"
    assert world.mind._memory.marks == {}
    starts = [event for event in world.mind.events if isinstance(event, StartSeen)]
    assert starts and StartMemory([Start(s.settings, s.effective, s.outcome) for s in starts]).marks == {}
