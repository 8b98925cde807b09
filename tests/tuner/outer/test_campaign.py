"""The walk of an outer loop: in which order engines serve, what a restart may cost, and that it always comes home."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest

from change.engine import EngineState
from change.restart.order import Accuracy, Outcome, RestartResult
from change.server import Setting, Settings
from tuner.messages import Observation
from tuner.objective import scale
from tuner.outer.campaign import OuterCampaign
from tuner.outer.memory import Start, StartMemory
from tuner.outer.messages import (
    Await,
    Check,
    Checked,
    Held,
    Hold,
    OuterCommand,
    Restart,
    Restarted,
    Seen,
    TunedHot,
    TuneHot,
)
from tuner.outer.settings import OuterSettings
from tuner.outer.stint import Score, Stint
from tuner.outer.trial import ColdTrial
from tuner.settings import Objective, Slo, TuneSettings

LAUNCH: dict[str, Setting] = {"block_size": 128, "batch_max_tokens": 2048, "gpu_memory_utilization": 0.9}
HOT = {"batch_max_tokens": 2048.0, "max_prefill_tokens": 0.0}
STATE = EngineState(
    plugin="0.1.0",
    engine="vllm",
    engine_version="0.32.0",
    boot_id="boot-0",
    epoch=0,
    values=HOT,
    ceilings=HOT,
    floors={},
    lease_remaining_seconds=None,
    gate="open",
    dp_ranks=1,
    api_servers=1,
    scheduler="Scheduler",
    scheduler_known=True,
)


class Measured(Stint):
    """A stint that has been measured already."""

    def __init__(self, found: Score, alarm: str | None = None) -> None:
        super().__init__(STATE, Slo(), 15.0, None, 85.0)
        self.alarm, self._found = alarm, found

    def score(self, scale: Any) -> Score | None:
        return self._found


class Walk(OuterCampaign):
    """Its stints are told and not observed; `worth` says what a start is worth, as a share of the incumbent's rate."""

    worth: Callable[[Settings], float] = staticmethod(lambda settings: 0.0)
    alarm: str | None = None

    def _measured(self, trial: ColdTrial | None, minutes: float) -> Generator[OuterCommand, Seen, Stint]:
        yield from self._ask(Await(), Observation)
        if self.standings.scale is None:
            self.standings.scale = scale(Objective("throughput"), Slo(), saturated=True)
            from tuner.limits import Limits

            self.standings._limits = Limits(self.standings.scale, Slo(), 0.1, True)
        settings = LAUNCH if trial is None else trial.settings
        return Measured(Score(self._now, self.worth(settings), 0.004, {}), self.alarm if trial else None)


class World:
    """Answers an outer loop's commands; `outcomes` are those of its restarts in order, served once they are used up."""

    def __init__(self, mind: OuterCampaign) -> None:
        self.mind = mind
        self.outcomes: list[tuple[Outcome, str]] = []
        self.effective: Callable[[Settings], Settings] = dict
        self.problems: Callable[[Settings], tuple[str, ...]] = lambda _: ()
        self.hot = "kept"
        self.open: Callable[[float], bool] = lambda _: True
        self.said: list[OuterCommand] = []
        self.times: list[tuple[float, OuterCommand]] = []
        self.accuracy: Accuracy = "not_asked"
        self.now = 0.0

    def served(self) -> list[int]:
        """Trial numbers in the order of their restarts; 0 is the incumbent."""
        return [command.trial or 0 for command in self.said if isinstance(command, Restart)]

    def run(self, stop_at: Callable[[OuterCommand], bool] = lambda _: False) -> dict[str, Any]:
        command = self.mind.step(self.now, None)
        for _ in range(5000):
            if command is None:
                break
            self.said.append(command)
            self.times.append((self.now, command))
            if stop_at(command):
                self.mind.stop("aborted", "a person stopped it")
            self.now += 600.0
            command = self.mind.step(self.now, self._answer(command), open_at=self.open)
        assert self.mind.final_report is not None, "the walk did not end"
        return self.mind.final_report

    def _answer(self, command: OuterCommand) -> Seen:
        match command:
            case Check():
                return Checked(self.problems(command.settings))
            case Restart():
                outcome, reason = self.outcomes.pop(0) if self.outcomes else ("served", "it serves")
                down = 0.0 if outcome == "refused" or command.kind == "promotion" else 300.0
                effective = self.effective(command.settings) if outcome == "served" else LAUNCH
                result = RestartResult(outcome, "load", reason, effective, {}, down, accuracy=self.accuracy)
                return Restarted(result, None if outcome == "down" else replace(STATE, boot_id=str(self.now)))
            case Hold():
                return Held(STATE)
            case TuneHot():
                return TunedHot({"decision": self.hot, "reasons": ["as told"]}, STATE)
            case _:
                return Observation(STATE, None)


def walk(
    worth: Callable[[Settings], float] = lambda settings: 0.0, starts: list[Start] | None = None, **outer: Any
) -> World:
    settings = OuterSettings(**{"restarts": 4, **outer})
    mind = Walk(
        TuneSettings(objective=Objective("throughput")),
        settings,
        Slo(),
        LAUNCH,
        STATE,
        StartMemory(starts or []),
    )
    mind.worth = worth
    return World(mind)


def by_block(**gains: float) -> Callable[[Settings], float]:
    return lambda settings: gains.get(f"b{settings['block_size']}", 0.0)


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
    world.effective = lambda settings: {**settings, "block_size": 128}
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


def test_what_is_left_of_a_window_is_for_the_alternation_and_not_for_another_candidate() -> None:
    world = walk(by_block(b64=0.4, b32=0.2))

    def open_at(now: float) -> bool:
        restarts = [at for at, c in world.times if isinstance(c, Restart)]
        # After the first candidate came up: time for one more restart. Then the next day.
        return not restarts or len(restarts) > 1 or now < restarts[0] + 4 * 600.0

    world.open = open_at
    assert world.run()["decision"] == "promoted"
    assert world.served() == [1, 0, 1, 1]


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


def test_a_person_may_allow_none_or_at_least_three_restarts() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        OuterSettings(2)
