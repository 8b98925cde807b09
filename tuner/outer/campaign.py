"""The outer loop's mind: hot tuning first, then start-up settings in turn with the incumbent. No clocks, no I/O.

The walk is one generator: it yields a command and is sent what came of it. A hot campaign on the incumbent comes first;
then each candidate is restarted into, its effective settings compared with those asked for, measured with the
incumbent's hot values and, if it holds up, tuned by a hot campaign of its own. The best of them alternates with the
incumbent once more (A B A B, or A B C A B), and only an effect of three between-restart standard deviations and 10%
is promoted, for a probation at first. Every end but a promotion is with the incumbent in force.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence

from change.engine import EngineState
from change.server import Settings
from tuner.messages import Decided, Decision, Observation
from tuner.outer.alternation import USUAL_SD
from tuner.outer.budget import TO_FINISH
from tuner.outer.memory import Start, StartMemory, changed
from tuner.outer.messages import (
    Agree,
    Agreed,
    Check,
    Checked,
    Held,
    Hold,
    OuterCommand,
    OuterEnded,
    Restart,
    Restarted,
    Seen,
    TunedHot,
    TuneHot,
)
from tuner.outer.proposer import ColdProposer
from tuner.outer.settings import OuterSettings
from tuner.outer.steps import Over, Steps, Walk
from tuner.outer.trial import ColdTrial, below
from tuner.settings import Slo, TuneSettings

PROMISING = math.log(0.95)
"""A candidate that loses more than this with the incumbent's hot values gets no hot campaign of its own."""
ANSWER_SECONDS = 3600.0
"""How long a candidate serves on while a person is asked whether it may stay."""


class OuterCampaign(Steps):
    """`step` it with what came of the last command (None at first); it answers with the next one, None once ended.

    `events` collects what is to be stored; the driver takes them away.
    """

    def __init__(
        self,
        settings: TuneSettings,
        outer: OuterSettings,
        slo: Slo,
        cold: Settings,
        state: EngineState,
        memory: StartMemory,
        past: Sequence[Settings] = (),
        usual_sd: float = USUAL_SD,
    ) -> None:
        """Begin with the engine's effective start-up settings and hot values; `past` are winners of earlier ones."""
        # The engine serves with these, whatever is remembered of other starts.
        memory.add(Start(dict(cold), dict(cold), "served"))
        super().__init__(settings, outer, slo, cold, state, memory, usual_sd)
        self._proposer = ColdProposer(cold, outer, memory, past)
        self._walk: Walk = self._whole()

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.phase == "ended"

    @property
    def serving(self) -> int:
        """Number of the trial that serves; 0 is the incumbent."""
        return self._serving

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._stopping is not None

    def stop(self, decision: Decision, reason: str) -> None:
        """End it: what was begun is finished, then the incumbent comes back."""
        self._stopping = self._stopping or (decision, reason)

    def leave(self, now: float, reason: str) -> None:
        """End it at once, with what serves left as it is."""
        self._now = now
        self._walk.close()
        self._close_open("aborted", reason)
        self._end("aborted", reason)

    def step(
        self, now: float, seen: Seen | None, *, open_at: Callable[[float], bool] = lambda _: True
    ) -> OuterCommand | None:
        """Take what came of the last command; `open_at` tells of a time whether the maintenance window is open then."""
        self._now, self._open_at = now, open_at
        if self.ended:
            return None
        try:
            return next(self._walk) if seen is None else self._walk.send(seen)
        except StopIteration:
            return None

    # ------------------------------------------------------------------ the walk

    def _whole(self) -> Walk:
        self.report.started = self._now
        try:
            yield from self._hot_first()
            yield from self._stint(None)
            finalist = yield from self._screen()
            yield from self._alternate(finalist)
            yield from self._agreement(finalist)
            yield from self._promote(finalist)
            self._end("promoted", "held through probation")
        except Over as over:
            yield from self._home(over)

    def _hot_first(self) -> Walk:
        tuned = yield from self._ask(TuneHot(None), TunedHot)
        self.report.tuned(tuned.report, None)
        if tuned.report["decision"] in ("too_thin", "aborted", "superseded"):
            raise Over(tuned.report["decision"], f"the hot campaign ended: {_reason(tuned)}")
        self._take_state(tuned.state)
        self._hot = dict(self._state.values)

    def _screen(self) -> Generator[OuterCommand, Seen, ColdTrial]:
        """Try candidates while the restarts last; the one that looks best, if it looks good enough."""
        self.phase = "screen"
        short = None
        while (short := self.spent.short_of(1 + TO_FINISH)) is None:
            if self._serving and not self._fits(self._stint_seconds, ways=2):
                # With one in force there is no waiting: what is left of the window is for the alternation.
                break
            trial = yield from self._next_candidate()
            if trial is None:
                break
            yield from self._visit(trial)
        alive = [trial for trial in self.trials if trial.state == "serving"]
        if not alive:
            why = short if short is not None and self.trials else "no other candidate is worth a restart"
            raise Over("kept", f"no candidate could be measured: {why}")
        best = max(alive, key=self._gain)
        for trial in alive:
            if trial is not best:
                self._close(trial, "rejected", f"trial {best.number} looked better")
        if not self.standings.hopeful(best.number):
            looked = f"looked like {self.standings.effect(self._gain(best)):+.1%}"
            self._close(best, "rejected", f"{looked}, too little")
            raise Over("kept", f"the best of the start-up settings {looked}")
        return best

    def _next_candidate(self) -> Generator[OuterCommand, Seen, ColdTrial | None]:
        """The next proposal that could start; what could not is an invalid trial and costs no restart."""
        while True:
            alive = [t for t in self.trials if t.state == "serving" and self._gain(t) > 0]
            best = max(alive, key=self._gain, default=None)
            proposal = self._proposer.propose(None if best is None else best.settings)
            if proposal is None:
                return None
            trial = ColdTrial(len(self.trials) + 1, proposal, dict(self._hot))
            self.trials.append(trial)
            checked = yield from self._ask(Check(changed(proposal.settings, self._cold)), Checked)
            if not checked.problems:
                return trial
            self._proposer.refuse(proposal.settings)
            self._close(trial, "invalid", f"cannot start here: {'; '.join(checked.problems)}")

    def _visit(self, trial: ColdTrial) -> Walk:
        """Restart into a candidate, measure it, tune its hot values, measure it again."""
        trial.started = self._now
        if not (yield from self._restart(trial)):
            return
        measured = yield from self._stint(trial)
        if not measured or self._gain(trial) < PROMISING:
            return
        if not self._fits(self._settings.minutes * 60.0 + self._stint_seconds, ways=1):
            self._note("stint", "the maintenance window has no room for a hot campaign inside it", trial)
            return
        tuned = yield from self._ask(TuneHot(trial.number), TunedHot)
        trial.hot_decision = tuned.report["decision"]
        self.report.tuned(tuned.report, trial.number)
        self._take_state(tuned.state)
        if tuned.report["decision"] in ("aborted", "superseded"):
            self._close(trial, "aborted", f"its hot campaign ended: {_reason(tuned)}")
            return
        if tuned.report["decision"] == "promoted":
            trial.hot = dict(self._state.values)
            self.standings.forget_last()
            yield from self._stint(trial)

    def _alternate(self, trial: ColdTrial) -> Walk:
        """The incumbent and the finalist once more: two alternations at least."""
        self.phase = "alternate"
        for again in (None, trial):
            if (short := self.spent.short_of(1)) is not None:
                self._close(trial, "inconclusive", short)
                raise Over("inconclusive", short)
            if not (yield from self._restart(again)):
                raise Over("inconclusive", f"trial {trial.number} could not be started again")
            if not (yield from self._stint(again)):
                raise Over("inconclusive", f"trial {trial.number} could not be measured again")
            if not self.standings.hopeful(trial.number):
                break
        trial.effect = self.standings.figures(trial.number)
        if (missing := self.standings.missing(trial.number)) is not None:
            self._close(trial, "rejected", missing)
            raise Over("kept", f"trial {trial.number}: {missing}")

    def _agreement(self, trial: ColdTrial) -> Walk:
        """Have the promotion agreed to: meanwhile the trial serves under its guard, and not for ever."""
        since = self._now
        stint = self._begun(trial, ANSWER_SECONDS / 60.0)
        while True:
            seen = yield from self._ask(Agree(trial.number, changed(trial.settings, self._cold)), object)
            if isinstance(seen, Agreed):
                return
            assert isinstance(seen, Observation), "what serves is observed until it is agreed to"
            self.report.see(seen)
            stint.step(self._now, seen)
            self._whose(stint)
            reason = stint.alarm
            if reason is None and self._now - since >= ANSWER_SECONDS:
                reason = f"nobody agreed to its promotion within {ANSWER_SECONDS / 60:.0f} minutes"
            if reason is not None:
                self._close(trial, "aborted" if stint.alarm else "inconclusive", reason)
                raise Over("aborted" if stint.alarm else "inconclusive", f"trial {trial.number}: {reason}")
            if stint.over:
                stint = self._begun(trial, ANSWER_SECONDS / 60.0)

    def _promote(self, trial: ColdTrial) -> Walk:
        self.phase = "probation"
        self._note("promote", f"{_text(trial, self._cold)}; not error-controlled", trial, trial.effect)
        restarted = yield from self._ask(
            Restart(changed(trial.settings, self._cold), "promotion", trial.number), Restarted
        )
        if (trouble := self._came_up(trial, restarted)) is not None:
            self._close(trial, "aborted", f"the promotion failed: {trouble}")
            raise Over("aborted", f"the promotion failed: {trouble}")
        self._kept = changed(trial.settings, self._cold)
        yield from self._hold(trial.hot, stands=True)
        stint = yield from self._measured(trial, self._outer.probation_minutes)
        score = self.standings.score(stint)
        reason = stint.alarm or stint.trouble
        if reason is None and score is None:
            reason = "too few of its windows can be measured"
        if reason is None and score is not None and score.score < self.standings.reference:
            reason = "it served worse than the incumbent had"
        if reason is not None:
            self._close(trial, "aborted", f"returned in probation: {reason}")
            raise Over("aborted", f"returned in probation: {reason}")
        self._close(trial, "promoted", "held through probation")
        self.report.promoted(trial)

    def _way_back(self) -> Settings:
        """What the incumbent differs in from the last known good: nothing, unless a trial was promoted since."""
        return {name: value for name, value in self._cold.items() if name in self._kept}

    def _home(self, over: Over) -> Walk:
        """Back to the incumbent, whatever the budget and the hour."""
        decision, reason = over.decision, over.reason
        self._close_open(decision, reason)
        self.phase = "return"
        if self._hands_off:
            self._end(decision, reason)
            return
        if self._serving:
            self._note("return", f"back to the incumbent: {reason}")
            restarted = yield Restart(self._way_back(), "rollback", None)
            assert isinstance(restarted, Restarted), "a restart is answered by what came of it"
            self.spent.take(restarted.result)
            self._serving = 0
            result = restarted.result
            # The last known good is the incumbent, until a trial was promoted.
            back = result.outcome == "served" or (result.outcome == "returned" and not self._kept)
            if not back or restarted.state is None:
                self._end("aborted", f"{reason}; the incumbent did not come back: {result.reason}")
                return
            self._state = restarted.state
        if self.spent.restarts:
            held = yield Hold(below(self._hot, self._state.ceilings), stands=True)
            if isinstance(held, Held) and held.reason is not None:
                reason = f"{reason}; the incumbent's hot values could not be put back: {held.reason}"
        self._end(decision, reason)

    def _close_open(self, decision: Decision, reason: str) -> None:
        for trial in self.trials:
            if trial.state in ("proposed", "serving"):
                self._close(trial, "aborted" if decision == "aborted" else "inconclusive", reason)

    def _end(self, decision: Decision, reason: str) -> None:
        self.phase = "ended"
        self.report.reasons.append(reason)
        self.events.append(Decided("end", f"{decision}: {reason}"))
        self.final_report = self.report.document(
            self._now,
            decision,
            self.trials,
            self.spent,
            self._proposer.skipped,
            self._state.values,
            self.standings.scale,
        )
        self.events.append(OuterEnded(decision, self.final_report))


def _reason(tuned: TunedHot) -> str:
    reasons = tuned.report.get("reasons") or ["no reason given"]
    return f"{tuned.report['decision']}, {reasons[-1]}"


def _text(trial: ColdTrial, incumbent: Settings) -> str:
    moved = changed(trial.settings, incumbent)
    return ", ".join(f"{name} {incumbent.get(name, 'unset')} -> {value}" for name, value in moved.items())
