"""One campaign's mind: look, calibrate, race, confirm, promote, probation. No clocks, no I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from change.engine import EngineState, KnobAnswer, Values
from change.knobs import differences, problems
from tuner import calibration, judge
from tuner.candidate import Candidate
from tuner.confirm import Confirmation, Verdict
from tuner.limits import Limits
from tuner.messages import (
    Command,
    Decided,
    Decision,
    Ended,
    Event,
    Observation,
    Phase,
    PhaseChanged,
    Promote,
    Retract,
    TrialState,
)
from tuner.objective import scale
from tuner.proposer import Proposer
from tuner.race import ACTIVE, Race
from tuner.report import Report
from tuner.results import Results
from tuner.settings import Slo, TuneSettings
from tuner.space import Space, space_of
from tuner.switchback import Arm, ScoredWindow, Switchback
from tuner.vigil import Vigil
from tuner.workload import fingerprint

MAX_CONFIRMED = 2
PROBATION_WINDOWS = 4
LEAST_BLOCKS = 2
PROMISING_ERRORS = 1.3
"""A candidate is confirmed when its smoothed gain is this many standard deviations above zero."""

MakeProposer = Callable[[Space, Values, int, Callable[[Values], list[str]], Sequence[Values]], Proposer]
Past = Callable[[Mapping[str, float]], Sequence[Values]]


class Campaign:
    """Feed it an observation a second with `step`, and the engine's answers with `answered` or `refused`.

    `events` collects what is to be stored; the driver takes them away. `past` gives winners of similar workloads.
    """

    def __init__(
        self,
        settings: TuneSettings,
        slo: Slo,
        state: EngineState,
        seed: int,
        past: Past = lambda _: (),
        make_proposer: MakeProposer = Proposer,
    ) -> None:
        self.settings = settings
        self.slo = slo
        self.phase: Phase = "look"
        self.events: list[Event] = []
        self.final_report: dict[str, Any] | None = None
        self.report = Report(settings, slo, dict(state.values), state.options)
        self._state = state
        self._incumbent = dict(state.values)
        self._random = np.random.default_rng(seed)
        self._past = past
        self._make_proposer = make_proposer
        self._space = space_of(state, settings)
        self._budget = settings.minutes * 60.0
        self._started = 0.0
        self._begun = False
        self._bench = Switchback(
            self._incumbent, slo, settings.lease_seconds, calibration.LOOK_SHARE * self._budget
        )
        self._vigil = Vigil(slo, state, settings.max_temperature_celsius)
        self.results: Results | None = None
        self._race: Race | None = None
        self._confirmation: Confirmation | None = None
        self._confirmed = 0
        self._undecided = False
        self._calibration: list[ScoredWindow] = []
        self._block = 0
        self._probation_ends = math.inf
        self._promoted = False
        self._winner = Arm(None, self._incumbent)

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.phase == "ended"

    @property
    def in_force(self) -> Arm:
        """What the engine should be serving now."""
        return self._bench.in_force

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Every trial so far."""
        return self.results.candidates if self.results else ()

    def answered(self, now: float, answer: KnobAnswer) -> list[Command]:
        """The engine applied the last switch or promotion; what it made of it may end the trial."""
        arm = self._bench.in_force
        self._bench.answered(now, answer)
        if arm.trial is None or self.results is None:
            return []
        candidate = self.results.candidate(arm.trial)
        candidate.effective = {
            name: answer.effective[name] for name in arm.values if name in answer.effective
        }
        wrong = differences(arm.values, answer.effective, self._state.options)
        if not wrong:
            return []
        if self._race is not None and candidate.state == "racing":
            for name, value in arm.values.items():
                if answer.effective.get(name) != value and value != self._incumbent.get(name):
                    self._race.hold(name, self._incumbent, value)
        return self._leave(now, candidate, "invalid", "; ".join(wrong))

    def unanswered(self) -> None:
        """Nobody answered the last switch; the lease is what is sure."""
        self._bench.unanswered()

    def promoted(self, now: float, epoch: int | None) -> list[Command]:
        """The promotion holds in the engine, at `epoch` if that could be read: probation begins."""
        self._promoted = True
        self._bench.promote(self._winner)
        self._bench.begin(now, epoch)
        self._probation_ends = now + PROBATION_WINDOWS * self._window_seconds
        return []

    def refused(self, now: float, reason: str) -> list[Command]:
        """The engine refused the last switch: the trial is invalid, the incumbent serves on."""
        arm = self._bench.in_force
        if self.phase == "probation":
            return self._end(now, "aborted", reason)
        if arm.trial is None or self.results is None:
            return self._end(now, "aborted", f"the engine refused the incumbent's values: {reason}")
        return self._leave(now, self.results.candidate(arm.trial), "invalid", reason)

    def stop(self, now: float, decision: Decision, reason: str) -> list[Command]:
        """End it from outside; the incumbent is put back in one call."""
        return [] if self.ended else self._end(now, decision, reason)

    def step(self, now: float, seen: Observation) -> list[Command]:
        """Advance by one observation."""
        if self.ended:
            return []
        if not self._begun:
            self._begun, self._started, self.report.started = True, now, now
            self._bench.begin(now, self._state.epoch)
        self.report.see(now, seen)
        if (trouble := self._vigil.trouble(now, seen, self._bench)) is not None:
            # A restart in probation may be the promotion's own doing: it is not to be applied again.
            ours = trouble.restore or (self._promoted and trouble.restarted)
            return (self._end if ours else self._finish)(now, trouble.decision, trouble.reason)
        commands = self._bench.step(now, seen)
        if (reason := self._vigil.alarm(seen, self._bench)) is not None:
            return self._abort(now, reason)
        for window in self._bench.scored(now):
            self._take(window)
        steps = {
            "look": self._look,
            "calibrate": self._calibrate,
            "race": self._run_race,
            "confirm": self._confirm,
        }
        # A verdict's change takes the place of the switch that was due in the same step.
        return steps.get(self.phase, self._probation)(now) or commands

    @property
    def _deadline(self) -> float:
        return self._started + self._budget

    @property
    def _window_seconds(self) -> float:
        return self._bench.timing.washout + self._bench.timing.window

    def _look(self, now: float) -> list[Command]:
        seconds = now - self._started
        records = [record for record in self._bench.book.records if record.arrival >= self._started]
        if not calibration.seen_enough(records, seconds):
            if seconds <= calibration.LOOK_SHARE * self._budget:
                return []
            return self._end(now, "too_thin", calibration.few_text(len(records), seconds))
        look = calibration.first_look(records, seconds, self._vigil.queue)
        watts = self.report.watts_known
        found = scale(self.settings.objective, self.slo, saturated=look.saturated, watts_known=watts)
        limits = Limits(found, self.slo, self.settings.max_regression, look.saturated)
        self.results = Results(self.events, self._incumbent, limits)
        self.report.looked(found, fingerprint(records, seconds))
        self._bench.measure_by(calibration.shortest(look, self._budget))
        self._bench.tokens_per_second = look.prefill_tokens_per_second
        self._enter("calibrate")
        self._plan([Arm(None, self._incumbent)] * calibration.CALIBRATION_WINDOWS)
        return []

    def _calibrate(self, now: float) -> list[Command]:
        if not self._bench.idle or self._bench.settling:
            return []
        results = self._known
        valid = [w for w in self._calibration if w.valid and results.scale.score(w.metrics) is not None]
        if len(valid) < calibration.CALIBRATION_WINDOWS // 2:
            reasons = sorted(
                {w.reason or f"{results.scale.unit} is unknown" for w in self._calibration if w not in valid}
            )
            return self._end(now, "inconclusive", f"too few windows can be measured: {'; '.join(reasons)}")
        found = calibration.settle(results, valid, self._bench.timing, self.settings)
        self._bench.measure_by(found.timing)
        self._bench.queue_range = calibration.queue_range(self._vigil.queue)
        self.report.calibrated(results, found, valid)
        results.note(
            "calibrated", f"noise of a pair {found.sd:.3f}, detectable effect {found.detectable:.1%}"
        )
        if found.thin is not None:
            return self._end(now, "too_thin", found.thin)
        if not self._space.dimensions:
            return self._end(now, "kept", "there is no knob to search here")
        seed, past = int(self._random.integers(2**31)), self._past(self.report.fingerprint)
        judge_values = partial(problems, ceilings=self._state.ceilings, floors=self._state.floors)
        proposer = self._make_proposer(self._space, self._incumbent, seed, judge_values, past)
        self.report.skipped_priors = proposer.skipped
        self._race = Race(results, proposer)
        self._enter("race")
        return []

    def _run_race(self, now: float) -> list[Command]:
        race = self._race
        if race is None or not self._bench.idle:
            return []
        reserve = 2 * judge.LOOKS[-1] * self._window_seconds + (PROBATION_WINDOWS + 1) * self._window_seconds
        left = self._deadline - reserve - now
        needed = self._budget - left + LEAST_BLOCKS * (ACTIVE + 1) * self._window_seconds
        if not self.candidates and needed > self._budget:
            return self._end(now, "too_thin", calibration.no_time_text(self.settings.minutes, needed))
        running = race.next_block(now, left / ((ACTIVE + 1) * self._window_seconds))
        if running == "over":
            return [] if self._bench.settling else self._choose(now)
        self._plan_beside_incumbent(running)
        return []

    def _confirm(self, now: float) -> list[Command]:
        confirmation = self._confirmation
        if confirmation is None:
            return self._choose(now)
        verdict = confirmation.look()
        # A block may give no pair: once all that was planned is scored, what is missing is planned again.
        room = not (confirmation.full and self._bench.settling)
        if verdict is None and self._bench.idle and room:
            if now + 2 * self._window_seconds <= self._deadline:
                self._plan_beside_incumbent([confirmation.challenger])
                confirmation.scheduled += 1
            elif not self._bench.settling:
                verdict = confirmation.out_of_time()
        return [] if verdict is None else self._decide(now, confirmation.challenger, verdict)

    def _probation(self, now: float) -> list[Command]:
        return [] if now < self._probation_ends else self._finish(now, "promoted", "held through probation")

    def _choose(self, now: float) -> list[Command]:
        """Confirm the best candidate if it is worth it, else keep the incumbent."""
        assert self._race is not None
        self._known.refit()
        found = self._race.choice()
        if found is not None and self._confirmed < MAX_CONFIRMED:
            gain, sd = found.gain, found.sd
            needed = 2 * judge.LOOKS[0] * self._window_seconds + self._bench.timing.settle
            if gain >= self._known.margin and gain > PROMISING_ERRORS * sd and now + needed <= self._deadline:
                return self._challenge(now, found.candidate, gain, sd)
        self._race.dismiss(now)
        if self._undecided:
            return self._end(now, "inconclusive", "the confirmation could not decide")
        if found is None:
            return self._end(now, "kept", "no candidate stayed within the limits")
        effect = self._known.scale.effect(found.gain, self._known.reference)
        return self._end(
            now, "kept", f"nothing else was worth a confirmation: the best looked like {effect:+.1%}"
        )

    def _challenge(self, now: float, candidate: Candidate, gain: float, sd: float) -> list[Command]:
        for other in self.candidates:
            if other is not candidate and not other.done:
                self._known.close(now, other, "rejected", "another candidate was better in the race")
        candidate.state, candidate.reason, candidate.ended = "confirming", None, None
        self._confirmed += 1
        results = self._known
        self._confirmation = Confirmation(candidate, results)
        self.events.append(candidate.row())
        effect = results.scale.effect(gain, self._known.reference)
        self._known.note(
            "confirm", f"looked like {effect:+.1%} in the race", candidate, {"gain": gain, "sd": sd}
        )
        self._enter("confirm")
        return []

    def _decide(self, now: float, challenger: Candidate, verdict: Verdict) -> list[Command]:
        others = self._confirmation.others() if self._confirmation else {}
        self._confirmation = None
        self._undecided = self._undecided or verdict.outcome == "inconclusive"
        self.report.judged(verdict, others)
        figures = {**verdict.effect, "p_value": verdict.p_value, "level": judge.NOMINAL_LEVEL}
        self._known.note(verdict.outcome, verdict.text, challenger, figures)
        challenger.effect = verdict.effect
        if verdict.outcome == "promoted":
            self._known.close(now, challenger, verdict.outcome, verdict.text)
            self.report.promoted(challenger)
            self._winner = Arm(challenger.number, challenger.values)
            self._bench.promote(self._winner)
            self._enter("probation")
            return [Promote(challenger.number, challenger.values)]
        return self._leave(now, challenger, verdict.outcome, verdict.text)

    def _leave(self, now: float, candidate: Candidate, state: TrialState, reason: str) -> list[Command]:
        """A trial ends; if it was serving, the incumbent comes back at once."""
        self._known.close(now, candidate, state, reason)
        self._bench.abandon(candidate.number)
        if self._confirmation is not None and self._confirmation.challenger is candidate:
            self._confirmation = None
        return [self._bench.restore()] if self._bench.in_force.trial == candidate.number else []

    def _abort(self, now: float, reason: str) -> list[Command]:
        """The candidate that serves broke a guard: back to the incumbent in one call."""
        candidate = self._known.candidate(self._bench.in_force.trial or 0)
        self._known.note("abort", reason, candidate)
        if self._promoted:
            return self._end(now, "aborted", f"returned in probation: {reason}")
        return self._leave(now, candidate, "aborted", reason)

    @property
    def _known(self) -> Results:
        assert self.results is not None, "nothing has been looked at yet"
        return self.results

    def _take(self, window: ScoredWindow) -> None:
        results = self._known
        results.close_window(window)
        if window.valid and window.arm.trial is None:
            self._vigil.learn(window.records)
        if self.phase == "calibrate":
            self._calibration.append(window)
            return
        confirming = self._confirmation.challenger.number if self._confirmation else None
        if self._confirmation and not window.valid:
            self._confirmation.spoiled(window.block)
        results.join(window, confirming)

    def _plan(self, arms: Sequence[Arm]) -> None:
        self._block += 1
        self._bench.plan(self._block, arms)
        if self.results is not None:
            self.results.blocks = self._block

    def _plan_beside_incumbent(self, candidates: Sequence[Candidate]) -> None:
        """One block, in random order."""
        arms = [Arm(None, self._incumbent), *(Arm(c.number, c.values) for c in candidates)]
        self._plan([arms[i] for i in self._random.permutation(len(arms))])

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        report = self.report
        self.events.append(PhaseChanged(phase, report.fingerprint, report.calibration, report.objective))

    def _end(self, now: float, decision: Decision, reason: str) -> list[Command]:
        """End with the incumbent in force."""
        restore: list[Command] = []
        if decision != "promoted":
            self.report.returned()
        if self._promoted:
            restore = [Retract(self._incumbent, reason)]
        elif self._bench.in_force.trial is not None:
            restore = [self._bench.restore()]
        self._bench.clear()
        return [*restore, *self._finish(now, decision, reason)]

    def _finish(self, now: float, decision: Decision, reason: str) -> list[Command]:
        for candidate in self.candidates:
            if not candidate.done:
                self._known.close(now, candidate, "inconclusive", f"the campaign ended: {reason}")
        self._bench.clear()
        self.report.reasons.append(reason)
        self.events.append(Decided("end", f"{decision}: {reason}"))
        self._enter("ended")
        self.final_report = self.report.document(now, decision, self.results)
        self.events.append(Ended(decision, self.final_report))
        return []
