"""The steps an outer loop's walk is made of: ask and be answered, restart, hold hot values, measure."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Literal, TypeVar

from change.engine import EngineState
from change.server import Setting, Settings
from tuner.messages import Decided, Decision, Observation
from tuner.outer.budget import Spent
from tuner.outer.memory import Mark, Start, StartMemory, changed, taken
from tuner.outer.messages import (
    Await,
    Held,
    Hold,
    Measure,
    OuterCommand,
    OuterEvent,
    OuterPhase,
    Restart,
    Restarted,
    Seen,
    StartSeen,
)
from tuner.outer.report import OuterReport
from tuner.outer.settings import ANSWERING, OuterSettings
from tuner.outer.standings import Standings
from tuner.outer.stint import WARM_UP_SECONDS, Stint
from tuner.outer.trial import ColdTrial, below
from tuner.settings import Slo, TuneSettings

LONGEST_WAIT = 26 * 3600.0
"""Seconds that a maintenance window may take to come."""
WINDOW_LOOK = 60.0
"""Windows are given in minutes: whether one stays open is looked at in steps of that."""
CLOSED = "the maintenance window closed before a decision"

Walk = Generator[OuterCommand, Seen, None]
Asking = Generator[OuterCommand, Seen, bool]
Answer = TypeVar("Answer")


class Over(Exception):
    """The walk is at its end; the incumbent is brought back by whoever catches it."""

    def __init__(self, decision: Decision, reason: str) -> None:
        super().__init__(reason)
        self.decision: Decision = decision
        self.reason = reason


class Steps:
    """State of one outer loop, and its steps as generators to be walked through."""

    def __init__(
        self,
        settings: TuneSettings,
        outer: OuterSettings,
        slo: Slo,
        cold: Settings,
        state: EngineState,
        memory: StartMemory,
        usual_sd: float,
    ) -> None:
        self.phase: OuterPhase = "hot"
        self.events: list[OuterEvent] = []
        self.final_report: dict[str, Any] | None = None
        self.trials: list[ColdTrial] = []
        self.spent = Spent(outer)
        self.standings = Standings(settings, outer, slo, usual_sd)
        self.report = OuterReport(settings, slo, outer, cold, state.values)
        self._settings = settings
        self._outer = outer
        self._slo = slo
        self._cold: dict[str, Setting] = dict(cold)
        self._hot = dict(state.values)
        self._memory = memory
        self._state: EngineState = state
        self._serving = 0
        self._hands_off = False
        self._now = 0.0
        self._open_at: Callable[[float], bool] = lambda _: True
        self._stopping: tuple[Decision, str] | None = None
        self._kept: Settings = {}
        """What the last known good differs in from the incumbent: nothing, until a trial is promoted."""

    def _ask(self, command: OuterCommand, answer: type[Answer]) -> Generator[OuterCommand, Seen, Answer]:
        seen = yield command
        if self._stopping is not None:
            # The answer first: whatever it says is so.
            if isinstance(command, Restart) and isinstance(seen, Restarted):
                self._take(command, seen)
            raise Over(*self._stopping)
        assert isinstance(seen, answer), f"{type(command).__name__} was answered by {type(seen).__name__}"
        # What came of a restart is taken in first. A promotion is no candidate any more: probation alone judges it.
        candidate = self._serving and self.phase != "probation" and not isinstance(seen, Restarted)
        if candidate and not self._open_at(self._now):
            raise Over("inconclusive", CLOSED)
        return seen

    def _take(self, command: Restart, restarted: Restarted) -> None:
        """Take in what serves after a restart that nobody waits for any more."""
        self.spent.take(restarted.result)
        self._state = restarted.state or self._state
        match restarted.result.outcome:
            case "served":
                self._serving = command.trial or 0
                self._kept = command.settings if command.kind == "promotion" else self._kept
            case "returned":
                # The last known good is the incumbent, until a trial was promoted.
                self._serving = -1 if self._kept else 0
            case "down":
                self._hands_off = True

    def _restart(self, trial: ColdTrial | None) -> Asking:
        """Restart into a trial, or the incumbent, with its hot values; whether it serves as asked."""
        # Over the last known good, which the incumbent is: to name more would write its defaults into its command.
        settings, number = ({}, 0) if trial is None else (changed(trial.settings, self._cold), trial.number)
        yield from self._window(trial)
        restarted = yield from self._ask(Restart(settings, "trial", number or None), Restarted)
        trouble = self._came_up(trial, restarted)
        if trouble is not None and trial is None:
            raise Over("aborted", f"the incumbent could not be started again: {trouble}")
        if trouble is not None and trial is not None:
            self._close(trial, "invalid", trouble)
            return False
        yield from self._hold(self._hot if trial is None else trial.hot, stands=False)
        if trial is not None and trial.state == "proposed":
            trial.state = "serving"
            self.events.append(trial.row())
        return True

    def _came_up(self, trial: ColdTrial | None, restarted: Restarted) -> str | None:
        """Take in what came of a restart; why what serves is not what was asked for, or None."""
        result = restarted.result
        self.spent.take(result)
        asked = self._cold if trial is None else trial.settings
        self.report.restarted(result, 0 if trial is None else trial.number)
        if result.outcome == "refused":
            return f"refused at {result.phase}: {result.reason}"
        if result.outcome == "down" or restarted.state is None:
            self._hands_off = True
            raise Over("aborted", f"nothing serves: {result.reason}")
        self._state = restarted.state
        moved = changed(asked, self._cold)
        # The lane compares, as it knows how an engine spells things and what was left to it.
        marks = [Mark(m.knob, m.requested, m.effective) for m in result.mismatches if m.knob in moved]
        if result.outcome == "returned":
            self._serving = 0
            if marks and trial is not None:
                # It started, and not as asked: that is known of the knob, whatever else is tried with it.
                trial.effective = taken(asked, asked, marks)
                self._remember(asked, trial.effective, "served", result.phase, result.reason)
                return "; ".join(map(str, marks))
            if trial is not None:
                self._remember(asked, {}, "failed", result.phase, result.reason)
            return f"failed at {result.phase}: {result.reason}"
        self._serving = 0 if trial is None else trial.number
        self._remember(asked, taken(asked, result.effective, marks), "served", result.phase, result.reason)
        if trial is None:
            return None
        trial.effective = dict(result.effective)
        if marks:
            return "; ".join(map(str, marks))
        gated = ANSWERING.intersection(changed(asked, self._cold))
        if gated and result.accuracy != "passed":
            return f"{', '.join(sorted(gated))} changes answers and no accuracy gate was passed"
        return None

    def _hold(self, values: dict[str, float], *, stands: bool) -> Walk:
        held = yield from self._ask(Hold(below(values, self._state.ceilings), stands), Held)
        if held.reason is not None or held.state is None:
            raise Over("aborted", f"the hot values could not be put in force: {held.reason or 'no answer'}")
        self._state = held.state

    def _window(self, trial: ColdTrial | None) -> Walk:
        """Wait for a maintenance window with room for what is to come; with a candidate in force there is no waiting.

        A candidate needs room to start, for a stint and for the way back.
        """
        since = self._now
        while not self._fits(0.0 if trial is None else self._stint_seconds, ways=1 if trial is None else 2):
            if self._serving:
                raise Over("inconclusive", "the maintenance window has no room left for another start")
            if self._now - since > LONGEST_WAIT:
                raise Over("kept", "no maintenance window came that was long enough for a candidate")
            yield from self._ask(Await(), object)

    @property
    def _stint_seconds(self) -> float:
        return WARM_UP_SECONDS + self._outer.stint_minutes * 60.0

    def _fits(self, seconds: float, ways: int) -> bool:
        """Whether so long and so many restarts go into the window that is open now."""
        needed = seconds + ways * self.spent.expected_seconds
        looks = [self._now + WINDOW_LOOK * step for step in range(int(needed // WINDOW_LOOK) + 1)]
        return all(map(self._open_at, [*looks, self._now + needed]))

    def _stint(self, trial: ColdTrial | None) -> Asking:
        """Measure what serves; whether it stays in the race."""
        stint = yield from self._measured(trial, self._outer.stint_minutes)
        if trial is None:
            if (trouble := self.standings.own(stint)) is not None:
                raise Over("inconclusive", f"the incumbent cannot be measured: {trouble}")
            return True
        if (trouble := self.standings.trial(trial.number, stint)) is not None:
            self._close(trial, self._verdict(stint), trouble)
            return False
        trial.effect = self.standings.figures(trial.number)
        self._note("stint", f"looked like {trial.effect['median']:+.1%}", trial, trial.effect)
        self.events.append(trial.row())
        return True

    def _measured(self, trial: ColdTrial | None, minutes: float) -> Generator[OuterCommand, Seen, Stint]:
        stint = self._begun(trial, minutes)
        while not stint.over:
            seen = yield from self._ask(Measure(None if trial is None else trial.number), Observation)
            self.report.see(seen)
            stint.step(self._now, seen)
        self._whose(stint)
        return stint

    def _begun(self, trial: ColdTrial | None, minutes: float) -> Stint:
        usual = None if trial is None else self.standings.usual
        return Stint(self._state, self._slo, minutes, usual, self._settings.max_temperature_celsius)

    def _whose(self, stint: Stint) -> None:
        """End the walk where another engine serves: whoever restarted it decides with what it serves."""
        if stint.restarted:
            self._hands_off = True
            raise Over("superseded", stint.trouble or "the engine was restarted by somebody else")

    def _verdict(self, stint: Stint) -> Literal["aborted", "rejected", "inconclusive"]:
        """What becomes of a trial whose stint keeps it from going on."""
        return "aborted" if stint.alarm else "rejected"

    def _gain(self, trial: ColdTrial) -> float:
        return self.standings.compared(trial.number).gain

    def _take_state(self, state: EngineState | None) -> None:
        if state is None:
            raise Over("aborted", "the engine is out of reach after its hot campaign")
        self._state = state

    def _remember(
        self,
        settings: Settings,
        effective: Settings,
        outcome: Literal["served", "failed"],
        phase: str,
        reason: str,
    ) -> None:
        self._memory.add(Start(dict(settings), dict(effective), outcome, reason))
        self.events.append(
            StartSeen(self._state.engine_version, dict(settings), dict(effective), outcome, phase, reason)
        )

    def _close(
        self,
        trial: ColdTrial,
        state: Literal["promoted", "rejected", "inconclusive", "aborted", "invalid"],
        reason: str,
    ) -> None:
        trial.close(self._now, state, reason)
        self.events.append(trial.row())
        self._note(state, reason, trial)

    def _note(self, kind: str, text: str, trial: ColdTrial | None = None, figures: Any = None) -> None:
        self.events.append(Decided(kind, text, trial.number if trial else None, figures or {}))
