"""A world that answers an outer loop's commands, for tests of its walk."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from change.engine import EngineState
from change.restart.order import Accuracy, Mismatch, Outcome, RestartResult
from change.server import Setting, Settings
from tuner.messages import Observation
from tuner.objective import scale
from tuner.outer.campaign import OuterCampaign
from tuner.outer.memory import Start, StartMemory
from tuner.outer.messages import (
    Agree,
    Agreed,
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
        self.mismatches: Callable[[Settings], tuple[Mismatch, ...]] = lambda _: ()
        self.problems: Callable[[Settings], tuple[str, ...]] = lambda _: ()
        self.hot = "kept"
        self.open: Callable[[float], bool] = lambda _: True
        self.said: list[OuterCommand] = []
        self.times: list[tuple[float, OuterCommand]] = []
        self.agrees = True
        self.accuracy: Accuracy = "not_asked"
        """What the golden prompts say of a trial; its promotion restarts nothing and says it once more."""
        self._shown: Accuracy = "not_asked"
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
                if outcome == "served" and (wrong := self.mismatches(command.settings)):
                    outcome, reason = "returned", "; ".join(map(str, wrong))
                else:
                    wrong = ()
                effective = self.effective(command.settings) if outcome == "served" else LAUNCH
                if command.kind != "promotion":
                    self._shown = self.accuracy if command.settings else "not_asked"
                result = RestartResult(
                    outcome, "load", reason, effective, {}, down, accuracy=self._shown, mismatches=wrong
                )
                return Restarted(result, None if outcome == "down" else replace(STATE, boot_id=str(self.now)))
            case Hold():
                return Held(STATE)
            case TuneHot():
                return TunedHot({"decision": self.hot, "reasons": ["as told"]}, STATE)
            case Agree() if self.agrees:
                return Agreed()
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
