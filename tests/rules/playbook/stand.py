"""An engine with a few knobs, the readings of a host, and a driver that carries commands out as the daemon's does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from collectors.sample import Labels, labels
from rules.actions import Action, ActionKind, Outcome, Plan
from rules.playbook.load import read
from rules.playbook.messages import (
    Answer,
    AskApproval,
    Command,
    DoAct,
    Mode,
    Note,
    PlanAct,
    Result,
    RunChanged,
    TakeCapture,
    Trigger,
    UndoAct,
)
from rules.playbook.rails import Limits
from rules.playbook.runner import Runner
from rules.playbook.schema import Playbook
from rules.readings import Matcher, Track
from store import Store
from store.alert_models import PlaybookRun, RunAct, RunEvent

HOT = """
playbooks:
  - name: hot
    title: A hot card
    description: A card is over its limit.
    target: npu
    cooldown: 30min
    variables: {limit: 85}
    steps:
      - name: hot
        check: npu_temperature_celsius{npu="${npu}"} > ${limit}
        within: 30s
        yes: evidence
      - {name: evidence, capture: dmesg, seconds: 5}
      - {name: cause, diagnose: "card ${npu} is over ${limit}", cause: thermal}
      - name: relieve
        act: {kind: set_knobs, arguments: {max_num_seqs: x0.5}}
        timeout: 60s
      - name: cooler
        verify: npu_temperature_celsius{npu="${npu}"} < ${limit}
        for: 30s
        within: 5min
"""
"""What most tests walk: a check, a capture, a diagnosis, an act, a verification."""


def playbooks(text: str = HOT) -> dict[str, Playbook]:
    return read(text, "test.yaml")


def alert(npu: str = "3", started: float = 1000.0, **more: Any) -> Trigger:
    return Trigger(
        **{
            "playbook": "hot",
            "source": "rule",
            "labels": labels(alertname="Hot", npu=npu),
            "fingerprint": f"f{npu}",
            "alert_started": started,
            "window_seconds": 60.0,
            **more,
        }
    )


class Board:
    """The newest reading of each series."""

    def __init__(self) -> None:
        self.readings: dict[tuple[str, Labels], tuple[float, float]] = {}

    def tracks(self, name: str, matchers: Sequence[Matcher], start: float, end: float) -> Iterable[Track]:
        for (known, found), (time, value) in self.readings.items():
            if known == name and start < time <= end and all(_matches(m, dict(found)) for m in matchers):
                yield Track(found, [time], [value])


def _matches(matcher: Matcher, found: Mapping[str, str]) -> bool:
    value = found.get(matcher.label, "")
    match matcher.op:
        case "=":
            return value == matcher.value
        case "!=":
            return value != matcher.value
        case "=~":
            return re.fullmatch(matcher.value, value) is not None
    return re.fullmatch(matcher.value, value) is None


class FakeEngine:
    """Knobs that can be changed and put back; `next_*` say what the next command comes to."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {"max_num_seqs": 256.0, "batch_max_tokens": 8192.0}
        self.first = dict(self.values)
        self.restarts = 0
        self.told: list[str] = []
        self.refuses: dict[ActionKind, str] = {}
        self.fails: str | None = None
        self.stuck = False

    def refusal(self, action: Action) -> str | None:
        return self.refuses.get(action.kind)

    def plan(self, action: Action) -> Plan:
        if action.kind == "restart":
            return Plan("restart the engine", "engine", False)
        if action.kind == "notify":
            return Plan(f"tell: {action.arguments['text']}", "none", False)
        old = {name: self.values[name] for name in action.arguments}
        return Plan(f"change {old}", "engine", True, {"values": old})

    def act(self, action: Action) -> Outcome:
        if action.kind == "restart":
            self.restarts += 1
        elif action.kind == "notify":
            self.told.append(action.arguments["text"])
        else:
            for name, value in action.arguments.items():
                factor = float(value[1:]) if isinstance(value, str) else None
                self.values[name] = self.values[name] * factor if factor else float(value)
        return Outcome(self.fails is None, self.fails or "done", {"values": dict(self.values)})

    def undo(self, undo: Mapping[str, Any]) -> Outcome:
        if self.stuck:
            return Outcome(False, "the engine does not answer")
        self.values.update(undo["values"])
        return Outcome(True, "as before")


class Stand:
    """Ticks a runner and carries its commands out; what the driver holds is lost in a crash, the store is not."""

    def __init__(
        self, store: Store, books: Mapping[str, Playbook] | None = None, limits: Limits | None = None
    ) -> None:
        self.store = store
        self.books = playbooks() if books is None else books
        self.limits = limits or Limits()
        self.engine = FakeEngine()
        self.board = Board()
        self.now = 1000.0
        self.mode: Mode = "act"
        self.stopped: str | None = None
        self.lost: set[type] = set()
        self.said: list[Command] = []
        self.results: list[Result] = []
        self.answers: list[Answer] = []
        self.runner = Runner("http://e", self.books, self.limits, store)
        self.runner.recover(self.now)

    def crash(self) -> None:
        """The process is gone; another begins with the same store."""
        self.results, self.answers = [], []
        self.runner = Runner("http://e", self.books, self.limits, self.store)
        self.runner.recover(self.now)

    def heat(self, celsius: float | None, npu: str = "3") -> None:
        key = ("npu_temperature_celsius", labels(npu=npu))
        if celsius is None:
            self.board.readings.pop(key, None)
        else:
            self.board.readings[key] = (self.now, celsius)

    def tick(self, seconds: float = 5.0, celsius: float | None = None, times: int = 1) -> tuple[Command, ...]:
        """Let time pass, with a fresh reading each time where one is given."""
        commands: tuple[Command, ...] = ()
        for _ in range(times):
            self.now += seconds
            if celsius is not None:
                self.heat(celsius)
            results, self.results = self.results, []
            answers, self.answers = self.answers, []
            commands = self.runner.tick(self.now, self.board, self.mode, self.stopped, results, answers)
            self.said += commands
            for command in commands:
                self.carry_out(command)
        return commands

    def carry_out(self, command: Command) -> None:
        if isinstance(command, Note | RunChanged | AskApproval) or type(command) in self.lost:
            return
        match command:
            case PlanAct(run, call, _, action):
                refused = self.engine.refusal(action)
                plan = None if refused else self.engine.plan(action)
                self.results.append(Result(run, call, plan=plan, refused=refused))
            case DoAct(run, call, _, act_id, action, _):
                assert self.row(RunAct, act_id).state == "intended", "written down before it is done"
                self.results.append(Result(run, call, outcome=self.engine.act(action)))
            case UndoAct(run, call, _, _, undo):
                self.results.append(Result(run, call, outcome=self.engine.undo(undo)))
            case TakeCapture(run, call):
                self.results.append(Result(run, call, outcome=Outcome(True, "recorded", {"path": "x"})))

    def answer(self, yes: bool = True) -> None:
        asked = self.last(AskApproval)
        self.answers.append(Answer(asked.run_id, yes, "ann", asked.call))

    def last(self, kind: type[Any]) -> Any:
        return next(command for command in reversed(self.said) if isinstance(command, kind))

    def of(self, kind: type[Any]) -> list[Any]:
        return [command for command in self.said if isinstance(command, kind)]

    def row(self, table: type[Any], key: int) -> Any:
        with self.store.reading() as session:
            return session.get_one(table, key)

    def rows(self, table: type[Any]) -> list[Any]:
        with self.store.reading() as session:
            return list(session.query(table).order_by(table.id))

    def run(self, number: int = -1) -> Any:
        return self.rows(PlaybookRun)[number]

    def lines(self) -> list[str]:
        return [f"{row.step} {row.kind}: {row.text}" for row in self.rows(RunEvent)]
