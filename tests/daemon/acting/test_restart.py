"""Restarts by a playbook on a simulated engine: dead, stalled or serving, now or when it is quiet, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from change.engine import EngineState, PluginAbsent
from change.restart.end import URGENT_DRAIN_SECONDS, URGENT_GRACE_SECONDS
from collectors.sample import Sample, labels
from daemon.acting.condition import ANSWER_SECONDS
from daemon.acting.quiet import QuietTimes
from daemon.acting.restart import RestartEngine
from daemon.sections.restart import RestartSection
from rules.actions import ActionRefused
from sim.hand import SimulatedControl
from sim.server_ground import SimulatedProbe
from tests.daemon.acting.hand_stand import LOAD_SECONDS, RUN, HandStand

OWN_LIMIT_SECONDS = 30.0
HASTE_SECONDS = 12.0
"""Of the simulated engine, whose fresh start is proved in no time."""


def clock_text(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%H:%M}"


class Here(HandStand):
    def __init__(self, folder: Path, *windows: str) -> None:
        super().__init__(folder)
        self.deed = self.made(*windows)

    def made(self, *windows: str) -> RestartEngine:
        quiet = QuietTimes(RestartSection(window=list(windows)), self.history)
        return RestartEngine(self.cold, self.condition, self.stand.journal, quiet, timer=self.stand.clock.now)

    def die(self) -> None:
        """The engine's process ends by itself."""
        server = self.stand.server
        server.run = replace(server.run, ends_at=self.now, exit_code=-9)
        server.settle()

    def hang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The run that is there now answers nothing any more; the next one does."""
        control, boot = self.stand.node.control, self.stand.node.control.boot_id
        state, gate = SimulatedControl.state, SimulatedControl.gate

        async def hangs(asked: Callable[[], object]) -> None:
            if control.boot_id == boot:
                await asyncio.Event().wait()

        async def hanging_state(self: SimulatedControl) -> EngineState:
            await hangs(lambda: None)
            return await state(self)

        async def hanging_gate(self: SimulatedControl, *args: object, **more: object) -> None:
            await hangs(lambda: None)
            await gate(self, *args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(SimulatedControl, "state", hanging_state)
        monkeypatch.setattr(SimulatedControl, "gate", hanging_gate)
        token = SimulatedProbe.one_token

        async def no_token(self: SimulatedProbe) -> None:
            await hangs(lambda: None)
            await token(self)

        monkeypatch.setattr(SimulatedProbe, "one_token", no_token)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_a_serving_engine_is_drained_and_comes_back_the_same(here: Here) -> None:
    before = here.stand.server.run.number
    plan, done = here.do(here.deed, "restart")
    assert (plan.blast, plan.reversible, plan.undo) == ("engine", False, None)
    assert done.ok
    assert done.figures["engine_was"] == "serving"
    assert here.stand.server.run.number == before + 1
    assert here.stand.serves(block_size=128)
    entry = here.stand.entries()[-1]
    assert (entry.kind, entry.actor, entry.outcome) == ("manual", RUN.actor, "done")


def test_settings_come_with_it_and_go_with_the_undo(here: Here) -> None:
    plan, done = here.do(here.deed, "restart", settings={"block_size": 64})
    assert done.ok
    assert here.stand.serves(block_size=64)
    back = here.undo(here.deed, plan.undo)
    assert back.ok
    assert here.stand.serves(block_size=128)
    starts = here.stand.server.starts
    assert here.undo(here.deed, plan.undo).ok
    assert here.stand.server.starts == starts


def test_a_restart_that_was_never_made_has_nothing_to_undo(here: Here) -> None:
    _, plan = here.plan(here.deed, "restart", settings={"block_size": 64})
    assert here.undo(here.deed, plan.undo).ok
    assert here.stand.server.starts == 0


def test_what_came_after_it_is_not_taken_back_with_it(here: Here) -> None:
    plan, _ = here.do(here.deed, "restart", settings={"block_size": 64})
    here.stand.live(here.cold.restart({"max_num_seqs": 128}, actor="operator", kind="manual"))
    back = here.undo(here.deed, plan.undo)
    assert not back.ok
    assert "operator" in back.text
    assert here.stand.serves(block_size=64, max_num_seqs=128)


def test_a_dead_engine_is_started_again_without_a_drain(here: Here) -> None:
    here.die()
    plan, done = here.do(here.deed, "restart")
    assert "has ended" in plan.text
    assert done.ok
    assert done.figures["engine_was"] == "dead"
    assert "drain" not in done.figures["phases"]
    assert done.figures["own_seconds"] <= OWN_LIMIT_SECONDS
    assert done.figures["load_seconds"] > 0
    assert here.stand.serves(block_size=128)


def test_a_dead_engine_is_started_outside_of_the_window_too(tmp_path: Path) -> None:
    here = Here(tmp_path)
    later = clock_text(here.now + 7200), clock_text(here.now + 10800)
    deed = here.made(f"{later[0]}-{later[1]}")
    here.die()
    _, done = here.do(deed, "restart")
    assert done.ok


def test_a_stalled_engine_is_not_waited_for(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.page_answers()
    here.hang(monkeypatch)
    here.stand.server.stubborn = True
    plan, done = here.do(here.deed, "restart")
    assert "answers nothing" in plan.text
    assert done.ok, done.text
    assert done.figures["engine_was"] == "stalled"
    phases = done.figures["phases"]
    assert phases["stop"] <= URGENT_GRACE_SECONDS + 1.0
    assert phases.get("drain", 0.0) <= 2 * URGENT_DRAIN_SECONDS
    assert done.figures["own_seconds"] <= HASTE_SECONDS
    monkeypatch.undo()
    assert here.stand.serves(block_size=128)


@pytest.mark.parametrize("settings", [{}, {"block_size": 64}], ids=["the same", "others"])
def test_one_that_serves_is_not_restarted_by_a_rescue(here: Here, settings: dict[str, Any]) -> None:
    with pytest.raises(ActionRefused, match="it serves"):
        here.plan(here.deed, "restart", when="down", settings=settings)
    assert here.stand.server.stops == 0


def test_one_that_serves_again_when_its_rescue_begins_is_left_alone(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.page_answers()
    here.hang(monkeypatch)
    action, plan = here.plan(here.deed, "restart", when="down")
    assert "answers nothing" in plan.text
    monkeypatch.undo()
    with pytest.raises(ActionRefused, match="it serves"):
        here.stand.live(here.deed.act(action, plan, RUN, here.now))
    assert here.stand.server.stops == 0


def test_a_rescue_starts_a_dead_engine(here: Here) -> None:
    here.die()
    _, done = here.do(here.deed, "restart", when="down")
    assert done.ok
    assert here.stand.serves(block_size=128)


def test_a_start_that_fails_is_no_success_and_names_its_sign(here: Here) -> None:
    here.stand.server.faults = ["out_of_memory"]
    _, done = here.do(here.deed, "restart", settings={"block_size": 64})
    assert not done.ok
    assert done.figures["sign"] == "npu_out_of_memory"
    assert here.stand.serves(block_size=128)


def test_a_flag_that_is_gone_is_refused_before_anything_stops(here: Here) -> None:
    with pytest.raises(ActionRefused, match="swap-space is gone"):
        here.plan(here.deed, "restart", settings={"swap_space": 4})
    assert here.stand.server.stops == 0


def test_without_a_hand_it_says_what_to_configure(here: Here) -> None:
    quiet = QuietTimes(RestartSection(), here.history)
    deed = RestartEngine(None, None, here.stand.journal, quiet)
    with pytest.raises(ActionRefused, match=r"engine\.server\.hand"):
        here.plan(deed, "restart")
    assert not here.undo(deed, {"actor": "x", "settings": {}}).ok


def test_one_that_can_wait_is_refused_until_it_is_quiet(here: Here) -> None:
    begin, end = clock_text(here.now + 7200), clock_text(here.now + 10800)
    with pytest.raises(ActionRefused, match=r"waits for the maintenance window.*walks again"):
        here.plan(here.made(f"{begin}-{end}"), "restart", when="quietest")
    assert here.stand.server.stops == 0


def test_in_the_window_it_is_made(here: Here) -> None:
    begin, end = clock_text(here.now - 3600), clock_text(here.now + 3600)
    _, done = here.do(here.made(f"{begin}-{end}"), "restart", when="quietest")
    assert done.ok


def test_when_nobody_knows_what_is_quiet_it_is_refused_with_what_to_set(here: Here) -> None:
    with pytest.raises(ActionRefused, match=r"engine\.restart\.window"):
        here.plan(here.deed, "restart", when="quietest")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"when": "soon"}, "now, quietest or down"),
        ({"settings": 7}, "names and values"),
        ({"settings": {"a": [1]}}, "a number"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(here: Here, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ActionRefused, match=said):
        here.plan(here.deed, "restart", **arguments)


def test_without_a_plugin_a_token_says_that_it_serves(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    async def absent(self: SimulatedControl) -> EngineState:
        raise PluginAbsent("no plugin")

    monkeypatch.setattr(SimulatedControl, "state", absent)
    with pytest.raises(ActionRefused, match="gate cannot be closed"):
        here.do(here.deed, "restart")
    assert here.stand.server.stops == 0


def test_a_dead_engine_comes_back_with_half_of_what_it_was_started_with(here: Here) -> None:
    state = here.stand.node.control.read_state()
    here.stand.journal.note_launch(state, here.now)
    seqs = state.values["max_num_seqs"]
    here.die()
    plan, done = here.do(here.deed, "restart", settings={"max_num_seqs": "x0.5"})
    assert done.ok, done.text
    assert plan.undo == {"actor": RUN.actor, "settings": {"max_num_seqs": round(seqs / 2)}}
    assert here.stand.serves(max_num_seqs=round(seqs / 2))


def test_what_nobody_knows_is_left_out_and_said(here: Here) -> None:
    plan, _ = here.do(here.deed, "restart", settings={"block_size": 64, "no_such_setting": "x0.5"})
    assert "no_such_setting left out" in plan.text
    assert here.stand.serves(block_size=64)


def test_somebodys_own_start_is_not_killed_in_the_middle_of_its_load(here: Here) -> None:
    here.page_answers()
    here.stand.restart(block_size=64)
    here.stand.node.control.down = True  # the port of the fresh run is not open yet
    with pytest.raises(ActionRefused, match="own start is under way"):
        here.plan(here.deed, "restart")


def test_a_start_that_never_answers_is_not_waited_for_without_end(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.hang(monkeypatch)
    here.stand.live(here.condition.tick(here.now))
    here.stand.live(asyncio.sleep(LOAD_SECONDS))
    plan = here.plan(here.deed, "restart")[1]
    assert "answers nothing" in plan.text


def test_a_busy_engine_that_answers_late_is_drained_and_not_killed(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.page_answers()
    begun, state = here.now, SimulatedControl.state

    async def busy(self: SimulatedControl) -> EngineState:
        if here.now < begun + 8.0:
            await asyncio.sleep(3.0)
        return await state(self)

    monkeypatch.setattr(SimulatedControl, "state", busy)
    assert "answers nothing" not in here.plan(here.deed, "restart")[1].text


def test_counters_that_stand_still_make_one_look_enough(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.page_answers()
    here.hang(monkeypatch)
    for second in range(40):
        own, at = labels(engine="0"), here.now - 40 + second
        readings = {"trimtab_engine_requests_running": 3.0, "trimtab_engine_generation_tokens_total": 7.0}
        here.history.add([Sample(name, value, at, own) for name, value in readings.items()], "vllm")
    begun = here.now
    assert "answers nothing" in here.plan(here.deed, "restart")[1].text
    assert here.now - begun <= 2 * ANSWER_SECONDS
