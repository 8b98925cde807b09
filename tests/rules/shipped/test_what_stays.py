"""Shipped playbooks walked where their act does not help: what must not be taken back, and what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from collectors.sample import Labels, labels
from rules.actions import Action, Outcome, Plan
from rules.playbook.schema import Act, Verify
from store import open_store
from tests.rules.playbook.stand import FakeEngine, Stand, alert
from tests.rules.shipped.test_shipped_playbooks import PLAYBOOKS

Readings = Mapping[tuple[str, Labels], float | str]
NOW = "now"
"""A reading whose value is the time: a line of a log that was just written."""
SERVES: Readings = {("trimtab_collector_success", labels(collector="vllm")): 1.0}
DOWN: Readings = {("trimtab_collector_success", labels(collector="vllm")): 0.0}
RUNNING: Readings = {("trimtab_engine_requests_running", ()): 5.0}
WAITING: Readings = {("trimtab_engine_requests_waiting", ()): 200.0}
HOT: Readings = {("npu_temperature_celsius", labels(npu="3")): 95.0}
SKEWED: Readings = {("npu_skew_ratio", labels(npu="3", of="utilisation")): 0.3}
SKEWED_CLOCK: Readings = {**SKEWED, ("npu_skew_ratio", labels(npu="3", of="clock")): -0.3}
COLD: Readings = {("npu_temperature_celsius", labels(npu="3")): 50.0}
OUT_OF_MEMORY: Readings = {
    ("trimtab_log_event_time_seconds", labels(signature="npu_out_of_memory", severity="error")): NOW
}
FAULTY: Readings = {
    ("trimtab_log_event_time_seconds", labels(signature="acl_507053", severity="critical")): NOW,
    **RUNNING,
}
FRAGMENTED: Readings = {("npu_allocator_fragmentation_ratio", labels(device="0")): 0.3, **SERVES}
WHOLE: Readings = {("npu_allocator_fragmentation_ratio", labels(device="0")): 0.05, **SERVES}


class Site(FakeEngine):
    """A service with a second replica, unless told otherwise; remembers what is done and put back."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Action] = []
        self.put_back: list[str] = []
        self.starts = True
        """Whether a start with other settings serves; else the engine goes back to those from before."""
        self.takes_settings = True

    def refusal(self, action: Action) -> str | None:
        if action.kind == "restart" and action.arguments.get("settings") and not self.takes_settings:
            return "this flag cannot be set here"
        return super().refusal(action)

    def plan(self, action: Action) -> Plan:
        if action.kind == "expand_batch":
            return Plan("a larger batch", "engine", True, {"kind": action.kind})
        if action.kind in ("set_knobs", "notify"):
            return super().plan(action)
        back = action.kind != "restart" or bool(action.arguments["settings"])
        return Plan(action.kind, "engine", back, {"kind": action.kind} if back else None)

    def act(self, action: Action) -> Outcome:
        self.done.append(action)
        if action.kind == "restart" and action.arguments["settings"] and not self.starts:
            return Outcome(False, "returned (load): the last known good serves again")
        return super().act(action) if action.kind in ("set_knobs", "notify") else Outcome(True, "done")

    def undo(self, undo: Mapping[str, Any]) -> Outcome:
        self.put_back.append(undo.get("kind", "set_knobs"))
        return Outcome(True, "as before") if "kind" in undo else super().undo(undo)

    def kinds(self) -> list[str]:
        return [action.kind for action in self.done]


@pytest.fixture
def stand() -> Iterator[Stand]:
    store = open_store("sqlite:///:memory:")
    stand = Stand(store, PLAYBOOKS)
    stand.engine = Site()
    yield stand
    store.close()


def site(stand: Stand) -> Site:
    assert isinstance(stand.engine, Site)
    return stand.engine


def walk(stand: Stand, playbook: str, readings: Readings | Callable[[], Readings]) -> Site:
    """Walk to the end with these readings all along, or with those of each moment."""
    named = labels(alertname="A", npu="3", device="0")
    stand.runner.take([alert(playbook=playbook, labels=named)], stand.now)
    for _ in range(1000):
        for key, value in (readings() if callable(readings) else readings).items():
            stand.board.readings[key] = (stand.now + 5, stand.now if value == NOW else float(value))
        stand.tick()
        if stand.run().ended is not None:
            return site(stand)
    raise AssertionError("the walk has no end")


@pytest.mark.parametrize(
    ("playbook", "readings"),
    [
        ("device_lost", {("npu_health_ok", labels(npu="3")): 0.0, **RUNNING}),
        ("device_memory_fault", FAULTY),
        ("thermal_throttling", HOT),
        ("slow_card", {**SKEWED_CLOCK, **COLD, **RUNNING}),
    ],
)
def test_traffic_does_not_come_back_to_a_bad_card_that_did_not_drain_or_cool(
    stand: Stand, playbook: str, readings: Readings
) -> None:
    here = walk(stand, playbook, readings)

    assert here.kinds()[0] == "traffic_away"
    assert here.put_back == []
    assert stand.run().state in ("inconclusive", "failed")
    assert "stays until a person puts it back: away" in stand.run().reason


def test_every_way_to_send_traffic_away_leaves_it_away() -> None:
    for playbook in PLAYBOOKS.values():
        for step in playbook.steps:
            if isinstance(step, Act) and step.act.kind == "traffic_away":
                assert step.keep, f"{playbook.name}: {step.name}"


@pytest.mark.parametrize(
    ("playbook", "readings"),
    [
        (
            "queue_over_100",
            {
                **WAITING,
                ("trimtab_engine_generation_tokens_total", ()): 5.0,
                ("trimtab_engine_prompt_tokens_total", ()): 5.0,
            },
        ),
        ("engine_busy", WAITING),
    ],
)
def test_a_replica_is_not_taken_away_under_the_queue_it_was_for(
    stand: Stand, playbook: str, readings: Readings
) -> None:
    here = walk(stand, playbook, readings)

    assert here.kinds() == ["scale_up", "notify"]
    assert here.put_back == []
    assert stand.run().state == "failed"


@pytest.mark.parametrize(
    ("playbook", "readings"),
    [
        ("memory_fragmentation", FRAGMENTED),
        ("npu_out_of_memory", {**OUT_OF_MEMORY, **DOWN}),
    ],
)
def test_a_restart_with_settings_costs_no_second_restart(
    stand: Stand, playbook: str, readings: Readings
) -> None:
    here = walk(stand, playbook, readings)

    assert here.kinds() == ["restart", "notify"]
    assert here.put_back == []


def test_a_try_that_failed_is_not_made_again_on_an_engine_that_serves_as_before(stand: Stand) -> None:
    here = site(stand)
    here.starts = False
    line = dict.fromkeys(OUT_OF_MEMORY, stand.now)
    not_read_yet = iter([DOWN, DOWN])

    def readings() -> Readings:
        return {**line, **(next(not_read_yet, SERVES) if here.put_back else DOWN)}

    walk(stand, "npu_out_of_memory", readings)

    assert here.kinds() == ["restart", "notify"]
    assert stand.run().state == "failed"


@pytest.mark.parametrize(
    ("serves", "done"), [(False, ["restart"]), (True, ["notify"])], ids=["has failed", "serves"]
)
def test_after_somebodys_own_start_a_restart_is_made_only_if_that_has_failed(
    stand: Stand, serves: bool, done: list[str]
) -> None:
    here = site(stand)
    here.refuses["restart"] = "its own start is under way"
    begun = stand.now

    def readings() -> Readings:
        over = stand.now - begun > 70
        if over:
            here.refuses.clear()
        return {
            **dict.fromkeys(OUT_OF_MEMORY, begun),
            **(SERVES if here.done or (over and serves) else DOWN),
        }

    walk(stand, "npu_out_of_memory", readings)

    assert here.kinds() == done


@pytest.mark.parametrize("tried", [True, False], ids=["tried", "refused"])
def test_a_start_that_went_back_to_the_old_settings_makes_memory_whole_too(stand: Stand, tried: bool) -> None:
    here = site(stand)
    here.starts = False
    here.takes_settings = tried

    def readings() -> Readings:
        ran: Readings = {("trimtab_restart_time_seconds", ()): stand.now} if here.done else {}
        return {**FRAGMENTED, **(WHOLE if here.done else {}), **ran}

    walk(stand, "memory_fragmentation", readings)

    (restart,) = here.done
    assert bool(restart.arguments["settings"]) is tried
    assert stand.run().state == "succeeded"


def test_every_restart_with_settings_leaves_them() -> None:
    for playbook in PLAYBOOKS.values():
        for step in playbook.steps:
            if isinstance(step, Act) and step.act.kind == "restart":
                assert step.keep is bool(step.act.arguments.settings), f"{playbook.name}: {step.name}"


@pytest.mark.parametrize(
    ("readings", "when"),
    [
        (SKEWED, "quietest"),
        (SKEWED_CLOCK, "now"),
        ({**SKEWED, ("npu_throttled_share_ratio", labels(npu="3")): 0.8}, "now"),
        ({("npu_busier_ratio", labels(npu="3")): 0.12}, "now"),
    ],
    ids=["busier", "lower clock", "throttled", "busier than it was"],
)
def test_a_serving_engine_is_restarted_for_a_busier_card_in_a_quiet_time_only(
    stand: Stand, readings: Readings, when: str
) -> None:
    site(stand).refuses["traffic_away"] = "no second replica"

    here = walk(stand, "slow_card", {**readings, **COLD, **RUNNING})

    (restart,) = (action for action in here.done if action.kind == "restart")
    assert restart.arguments["when"] == when


def test_a_batch_that_is_smaller_for_heat_stays_so_though_it_is_not_enough(stand: Stand) -> None:
    site(stand).refuses["traffic_away"] = "no second replica"

    here = walk(stand, "thermal_throttling", HOT)

    assert here.put_back == []
    assert here.values["max_num_seqs"] == 16
    assert "stays hot with a smaller batch, which stays" in here.told[-1]
    assert stand.run().state == "failed"
    assert "stays until a person puts it back: less" in stand.run().reason


def test_every_batch_that_is_made_smaller_for_heat_stays_small() -> None:
    for playbook in PLAYBOOKS.values():
        for step in playbook.steps:
            if isinstance(step, Act) and step.act.kind == "set_knobs":
                after = playbook.steps[playbook.index[step.then or playbook.after(step)]]
                assert isinstance(after, Verify)
                assert step.keep is ("celsius" in after.verify), f"{playbook.name}: {step.name}"


def test_a_batch_that_stays_small_for_heat_is_told(stand: Stand) -> None:
    site(stand).refuses["traffic_away"] = "no second replica"
    stand.runner.take(
        [alert(playbook="thermal_throttling", labels=labels(alertname="A", npu="3"))], stand.now
    )
    for _ in range(100):
        small = stand.engine.values["max_num_seqs"] < 256
        stand.tick(celsius=70 if small else 95)
        if stand.run().ended is not None:
            break

    assert stand.run().state == "succeeded"
    assert stand.engine.values["max_num_seqs"] == 64
    assert "set max_num_seqs and batch_max_tokens back" in stand.engine.told[-1]
