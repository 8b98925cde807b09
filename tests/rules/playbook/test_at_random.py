"""Whatever comes in whatever order: one change at a time, its undo first, and nothing unverified left behind."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import delete

from rules.playbook.messages import (
    ENDED,
    Answer,
    Command,
    DoAct,
    IntendAct,
    PlanAct,
    TakeCapture,
    UndoAct,
)
from rules.playbook.rails import Limits
from store import Store, StoreError, open_store
from store.alert_models import PlaybookRun, RunAct, RunEvent
from tests.rules.playbook.stand import Stand, alert, playbooks

BOOKS = """
playbooks:
  - name: hot
    title: Hot
    description: Halves the batch; where that does not help, tokens too, then a restart.
    target: npu
    cooldown: 10min
    steps:
      - {name: hot, check: 'npu_temperature_celsius{npu="${npu}"} > 85', within: 20s}
      - {name: evidence, capture: dmesg, seconds: 5}
      - {name: cause, diagnose: hot, cause: thermal}
      - {name: relieve, act: {kind: set_knobs, arguments: {max_num_seqs: x0.5}}, timeout: 20s, failed: less}
      - {name: helps, verify: "npu_temperature_celsius < 85", for: 10s, within: 60s, "yes": tell, "no": less}
      - {name: tell, act: {kind: notify, arguments: {text: better}}, then: end:succeeded, failed: end:succeeded}
      - {name: less, act: {kind: set_knobs, arguments: {batch_max_tokens: x0.5}}, timeout: 20s, failed: again}
      - {name: cooler, verify: 'npu_temperature_celsius{npu="${npu}"} < 85', within: 60s, "no": again}
      - {name: again, act: {kind: restart}, timeout: 40s}
      - {name: cool, verify: 'npu_temperature_celsius{npu="${npu}"} < 85', within: 60s}
  - name: slow
    title: Slow
    description: Fewer tokens.
    target: npu
    cooldown: 10min
    steps:
      - {name: hot, check: 'npu_temperature_celsius{npu="${npu}"} > 85'}
      - {name: profile, capture: msprof, seconds: 10}
      - {name: fewer, act: {kind: set_knobs, arguments: {batch_max_tokens: x0.5}}, timeout: 20s}
      - {name: cooler, verify: 'npu_temperature_celsius{npu="${npu}"} < 85', within: 60s}
  - name: look
    title: Look
    description: Only looks, and tells.
    cooldown: 5min
    steps:
      - {name: hot, check: 'npu_temperature_celsius{npu="${npu}"} > 85', within: 5min, "no": tell}
      - {name: tell, act: {kind: notify, arguments: {text: look}}}
"""
PLAYBOOKS = playbooks(BOOKS)
STORE = open_store("sqlite:///:memory:")
LIMITS = Limits(acts_per_hour=4, approval_seconds=120)
NPUS = st.sampled_from(["3", "4"])


class Moody(Stand):
    """Notes what is asked of it, and checks what must hold whenever something is done."""

    def __init__(self) -> None:
        self.done: list[tuple[float, DoAct]] = []
        self.late: list[Any] = []
        self.delay = False
        super().__init__(STORE, PLAYBOOKS, LIMITS)

    def carry_out(self, command: Command) -> None:
        assert not isinstance(command, IntendAct)
        if isinstance(command, DoAct):
            self.check_act(command)
        if isinstance(command, UndoAct):
            assert self.row(RunAct, command.act_id).plan["undo"] == command.undo
        super().carry_out(command)
        if self.delay and isinstance(command, DoAct | UndoAct | PlanAct | TakeCapture):
            self.late += self.results
            self.results = []

    def check_act(self, command: DoAct) -> None:
        row = self.row(RunAct, command.act_id)
        assert row.state == "intended"
        assert row.plan["undo"] == (None if command.plan.undo is None else dict(command.plan.undo))
        assert self.stopped is None and self.mode != "observe"
        assert not self.row(PlaybookRun, command.run_id).dry_run
        if command.action.kind == "notify":
            return
        self.done.append((self.now, command))
        recent = [time for time, _ in self.done if time > self.now - 3600]
        assert len(recent) <= LIMITS.acts_per_hour
        for other in self.rows(RunAct):
            if other.run_id != command.run_id and other.plan["blast"] != "none":
                assert self.row(PlaybookRun, other.run_id).ended is not None, "two runs change something"


class Playbooks(RuleBasedStateMachine):
    """Alerts, weather, people, a hand that fails, a store that is full, a process that dies."""

    @initialize()
    def begin(self) -> None:
        with STORE.session() as session:
            for table in (RunEvent, RunAct, PlaybookRun):
                session.execute(delete(table))
        self.stand = Moody()
        self.celsius: float | None = 90.0
        self.number = 0
        self.stuck = False

    @rule(
        npu=NPUS,
        playbook=st.sampled_from(sorted(PLAYBOOKS)),
        dry=st.sampled_from([False, False, False, True]),
    )
    def fire(self, npu: str, playbook: str, dry: bool) -> None:
        self.number += 1
        trigger = alert(npu, started=float(self.number), playbook=playbook, dry_run=dry)
        self.stand.runner.take([trigger, trigger], self.stand.now)
        self.one(5.0)

    @rule(npu=NPUS)
    def resolve(self, npu: str) -> None:
        self.stand.runner.resolved(f"f{npu}", self.stand.now)

    @rule(times=st.integers(1, 6))
    def go_on(self, times: int) -> None:
        for _ in range(times):
            self.one(5.0)

    @rule(celsius=st.sampled_from([None, 70.0, 90.0, 90.0]), times=st.integers(1, 40))
    def weather(self, celsius: float | None, times: int) -> None:
        self.celsius = celsius
        for _ in range(times):
            self.one(5.0)

    @rule(npu=NPUS, playbook=st.sampled_from(["hot", "slow"]))
    def what_is_done_helps(self, npu: str, playbook: str) -> None:
        self.celsius = 90.0
        self.fire(npu, playbook, dry=False)
        for _ in range(20):
            if any(view.state == "verifying" for view in self.stand.runner.status(self.stand.now).runs):
                self.celsius = 70.0
            self.one(5.0)
        self.celsius = 90.0

    @rule()
    def half_an_hour(self) -> None:
        for _ in range(30):
            self.one(60.0)

    def one(self, seconds: float) -> None:
        for npu in ("3", "4"):
            self.stand.heat(self.celsius, npu)
        self.stand.tick(seconds)

    @rule(
        what=st.sampled_from(
            ["fails", "refuses", "stuck", "lose the act", "lose the plan", "late", "stop", "observe"]
        ),
        times=st.integers(1, 30),
    )
    def trouble(self, what: str, times: int) -> None:
        """Something is wrong for a while, and then well again."""
        stand = self.stand
        stand.engine.fails = "clamped" if what == "fails" else None
        stand.engine.refuses = {"set_knobs": "no plugin"} if what == "refuses" else {}
        stand.engine.stuck = what == "stuck"
        self.stuck = self.stuck or stand.engine.stuck
        stand.lost = set()
        if what.startswith("lose"):
            stand.lost.add(DoAct if what == "lose the act" else PlanAct)
        stand.delay = what == "late"
        stand.stopped = "paused" if what == "stop" else None
        mode, stand.mode = stand.mode, "observe" if what == "observe" else stand.mode
        for _ in range(times):
            self.one(5.0)
        stand.engine.fails, stand.engine.refuses, stand.engine.stuck = None, {}, False
        stand.lost, stand.delay, stand.stopped, stand.mode = set(), False, None, mode
        stand.results += stand.late
        stand.late = []

    @rule(mode=st.sampled_from(["advise", "act"]))
    def switch(self, mode: Any) -> None:
        self.stand.mode = mode

    @rule(yes=st.booleans(), call=st.booleans())
    def say(self, yes: bool, call: bool) -> None:
        for view in self.stand.runner.status(self.stand.now).runs:
            if view.question is not None:
                self.stand.answers.append(Answer(view.run_id, yes, "ann", view.call if call else None))
        self.one(5.0)

    @rule(npu=NPUS, playbook=st.sampled_from(["hot", "slow"]), after=st.integers(0, 8))
    def die(self, npu: str, playbook: str, after: int) -> None:
        self.fire(npu, playbook, dry=False)
        for _ in range(after):
            self.one(5.0)
        self.stand.late = []
        self.stand.crash()

    @rule(times=st.integers(1, 30))
    def full_disk(self, times: int) -> None:
        def refuse(_: Store) -> None:
            raise StoreError("the disk is full")

        plain = Store.session
        Store.session = refuse  # type: ignore[method-assign, assignment]
        try:
            for _ in range(times):
                self.one(5.0)
        finally:
            Store.session = plain  # type: ignore[method-assign]

    @invariant()
    def nothing_unverified_is_left_behind(self) -> None:
        values = dict(self.stand.engine.first)
        open_ones = False
        for act in self.stand.rows(RunAct):
            run = self.stand.row(PlaybookRun, act.run_id)
            if run.ended is None:
                open_ones = open_ones or act.plan["blast"] != "none"
            elif act.plan["undo"] is not None:
                told = run.state == "failed" and "could not be put back" in run.reason
                assert act.state in ("kept", "undone", "refused") or (self.stuck and told), (
                    act.state,
                    run.reason,
                )
            elif act.plan["blast"] != "none":
                assert act.state != "intended" or run.state in ("abandoned", "failed")
            if act.state == "kept" and act.plan["undo"] is not None:
                for name in act.action["arguments"]:
                    values[name] *= 0.5
        if not open_ones and not self.stuck and not self.unsaved():
            assert self.stand.engine.values == values

    def unsaved(self) -> bool:
        return any(view.state in ENDED for view in self.stand.runner.status(self.stand.now).runs)

    @invariant()
    def cool_downs_hold(self) -> None:
        runs = [run for run in self.stand.rows(PlaybookRun) if run.started is not None]
        for before in runs:
            for after in runs:
                if before.ended is None or before.id == after.id or after.started < before.ended:
                    continue
                if before.target == after.target or "engine" in before.memory.get("changed", ()):
                    same = (before.playbook, before.target) == (after.playbook, after.target)
                    rest = before.memory["rest_seconds" if same else "target_rest_seconds"]
                    changes = after.playbook != "look" and not after.dry_run
                    assert after.started >= before.ended + rest or not (same or changes)

    @invariant()
    def every_step_has_its_line(self) -> None:
        for run in self.stand.rows(PlaybookRun):
            if run.ended is None:
                continue
            rows = [row for row in self.stand.rows(RunEvent) if row.run_id == run.id]
            assert any(row.kind == "state" and row.text.startswith(run.state) for row in rows)
            acted = {act.step for act in self.stand.rows(RunAct) if act.run_id == run.id}
            assert acted <= {row.step for row in rows if row.kind in ("act", "plan")}
            if (
                run.step is not None
                and run.state != "abandoned"
                and "stopped in the middle" not in (run.reason or "")
            ):
                assert any(row.step == run.step and row.kind != "state" for row in rows), run.reason

    def teardown(self) -> None:
        """In the end, with everything well again, nothing goes on for ever."""
        stand = self.stand
        stand.lost, stand.delay, stand.stopped, stand.engine.stuck = set(), False, None, False
        for _ in range(200):
            self.one(60.0)
            if stand.runner.idle:
                break
        assert stand.runner.idle
        self.nothing_unverified_is_left_behind()


TestPlaybooks = Playbooks.TestCase
TestPlaybooks.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
