"""The outer loop of a canary: start-up settings are tried on a second replica while the engine beside it serves on.

The walk is that of `tuner.outer.campaign` with the canary in the place of the engine, both measured at the same time,
and no hot campaigns: both serve with the base's hot values throughout. What holds on the canary is rolled out to the
base by one restart, with a probation in which the two must serve alike; or it is only reported. Every other end is with
the canary on its own settings and the base as it was.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Literal

from change.engine import EngineState
from change.server import Settings
from tuner.messages import Decision
from tuner.outer.alternation import USUAL_SD
from tuner.outer.campaign import OuterCampaign
from tuner.outer.memory import StartMemory, changed
from tuner.outer.messages import Await, Both, Held, Hold, Measure, OuterCommand, Restart, Restarted, Seen
from tuner.outer.paired_stint import PairedStandings, PairedStint
from tuner.outer.settings import OuterSettings
from tuner.outer.steps import LONGEST_WAIT, Over, Walk
from tuner.outer.stint import Stint
from tuner.outer.trial import ColdTrial, below
from tuner.settings import Slo, TuneSettings


class CanaryCampaign(OuterCampaign):
    """An `OuterCampaign` on a canary; `Measure` is answered by `Both`, and commands with `base` are the base's."""

    standings: PairedStandings

    def __init__(
        self,
        settings: TuneSettings,
        outer: OuterSettings,
        slo: Slo,
        cold: Settings,
        canary: EngineState,
        base: EngineState,
        memory: StartMemory,
        past: Sequence[Settings] = (),
        usual_sd: float = USUAL_SD,
        *,
        roll_out: bool = False,
    ) -> None:
        """Begin with the start-up settings that both have; `roll_out` allows one restart of the base for a winner."""
        super().__init__(settings, outer, slo, cold, base, memory, past, usual_sd)
        self.standings = PairedStandings(settings, outer, slo, usual_sd)
        self._state = canary
        self._base = base
        self._own_hot = dict(canary.values)
        self._may_roll_out = roll_out
        self._rolled = False
        """Whether the base serves, or may serve, something else than before."""
        self._stood: ColdTrial | None = None
        """What held on the canary."""

    # ------------------------------------------------------------------ the walk

    def _hot_first(self) -> Walk:
        self.phase = "check"
        yield from self._hold(self._hot, stands=False)

    def _visit(self, trial: ColdTrial) -> Walk:
        trial.started = self._now
        if (yield from self._restart(trial)):
            yield from self._stint(trial)

    def _measured(self, trial: ColdTrial | None, minutes: float) -> Generator[OuterCommand, Seen, Stint]:
        standings = self.standings
        usual, base_usual = (None, None) if trial is None else (standings.usual, standings.base_usual)
        heat = self._settings.max_temperature_celsius
        stint = PairedStint(self._state, self._base, self._slo, minutes, usual, base_usual, heat)
        while not stint.both_over:
            seen = yield from self._ask(Measure(None if trial is None else trial.number), Both)
            self.report.see(seen.canary)
            stint.watch(self._now, seen)
        if stint.base.restarted:
            # Whoever restarted it decides with what it serves.
            self._rolled = False
            raise Over("superseded", "the engine beside the canary was restarted by somebody else")
        if stint.restarted:
            # It may have come up with anything: it is there to be tried on, so it goes home.
            self._serving = -1
            raise Over("aborted", "the canary ended and started again by itself, or by somebody else")
        stint.end()
        return stint

    def _verdict(self, stint: Stint) -> Literal["aborted", "rejected", "inconclusive"]:
        unfair = isinstance(stint, PairedStint) and stint.unfair is not None
        return "inconclusive" if unfair else super()._verdict(stint)

    def _agreement(self, trial: ColdTrial) -> Walk:
        """Nothing is asked here: what is asked for is the engine's own restart."""
        yield from ()

    def _promote(self, trial: ColdTrial) -> Walk:
        self._stood = trial
        if not self._may_roll_out:
            self._leave(trial, "tune.canary.roll_out is off")
        self.phase = "probation"
        since = self._now
        while not self._open_at(self._now):
            if self._now - since > LONGEST_WAIT:
                self._leave(trial, "no maintenance window came")
            yield from self._ask(Await(), object)
        self._note("promote", f"{_named(self._moved(trial))}; not error-controlled", trial, trial.effect)
        yield from self._roll_out(trial)
        yield from self._probation(trial)
        restarted = yield from self._ask(Restart(self._moved(trial), "promotion", trial.number), Restarted)
        # From here on the base stands, whatever the canary does.
        self._rolled = False
        if restarted.result.outcome != "served":
            # Gone back by itself, it is on its own settings; else it still serves what nobody stands for there.
            gone = restarted.result.outcome == "returned"
            trouble = "" if gone else (yield from self._canary_home())
            self.report.reasons.append(f"the canary did not keep it: {restarted.result.reason}{trouble}")
        self._close(trial, "promoted", "held through probation")
        self.report.promoted(trial)

    def _roll_out(self, trial: ColdTrial) -> Walk:
        """Restart the base with what held on the canary."""
        restarted = yield from self._restart_base(
            Restart(self._moved(trial), "promotion", trial.number, base=True)
        )
        self.report.restarted(restarted.result, trial.number)
        result = restarted.result
        if result.outcome == "refused":
            self._rolled = False
        if self._stopping is not None:
            raise Over(*self._stopping)
        if result.outcome == "refused":
            self._leave(trial, f"the base was not restarted ({result.phase}): {result.reason}")
        trouble = None
        if result.outcome == "returned":
            trouble = f"failed at {result.phase}: {result.reason}"
        elif restarted.state is None or result.outcome == "down":
            trouble = f"the base does not serve: {result.reason}"
        elif result.mismatches:
            trouble = "; ".join(map(str, result.mismatches))
        if trouble is not None:
            self._close(trial, "aborted", f"the roll-out failed: {trouble}")
            raise Over("aborted", f"the roll-out failed: {trouble}")
        held = yield from self._ask(Hold(below(self._hot, self._base.ceilings), stands=True, base=True), Held)
        if held.reason is not None or held.state is None:
            raise Over(
                "aborted", f"the base's hot values could not be put back: {held.reason or 'no answer'}"
            )
        self._base = held.state

    def _probation(self, trial: ColdTrial) -> Walk:
        """Both serve the same: the base must have come as far as the canary had, at least half the way."""
        stint = yield from self._measured(trial, self._outer.probation_minutes)
        score = self.standings.score(stint)
        reason = stint.alarm or stint.trouble
        if reason is None and score is None:
            reason = "too few of its windows can be measured"
        if reason is None and score is not None:
            behind = score.score - self.standings.apart
            if behind > self._gain(trial) / 2.0:
                reason = f"the base stayed behind the canary by {self.standings.effect(behind):.1%}"
        if reason is not None:
            self._close(trial, "aborted", f"returned in probation: {reason}")
            raise Over("aborted", f"returned in probation: {reason}")

    def _leave(self, trial: ColdTrial, why: str) -> None:
        """End with what held on the canary left to the operator."""
        looked = f"{self.standings.effect(self._gain(trial)):+.1%}"
        text = f"trial {trial.number} held on the canary ({looked}) and was not rolled out: {why}"
        self._close(trial, "inconclusive", text)
        raise Over("kept", text)

    def _restart_base(self, order: Restart) -> Generator[OuterCommand, Seen, Restarted]:
        """Restart the base; what serves there is taken in also if the campaign is being stopped."""
        self._rolled = order.kind == "promotion"
        restarted = yield order
        assert isinstance(restarted, Restarted), "a restart is answered by what came of it"
        self.spent.take(restarted.result)
        if restarted.result.outcome in ("returned", "down"):
            # It has gone back by itself, or nothing can be done for it from here.
            self._rolled = False
        if restarted.state is not None:
            self._base = restarted.state
        return restarted

    def _home(self, over: Over) -> Walk:
        """The base as it was, the canary on its own settings, whatever the budget and the hour."""
        decision, reason = over.decision, over.reason
        for trial in self.trials:
            if trial.state in ("proposed", "serving"):
                self._close(trial, "aborted" if decision == "aborted" else "inconclusive", reason)
        self.phase = "return"
        if self._rolled:
            moved = {} if self._stood is None else self._moved(self._stood)
            before = {name: value for name, value in self._cold.items() if name in moved}
            restarted = yield from self._restart_base(Restart(before, "rollback", None, base=True))
            # Refused, or gone back to the last known good, which was promoted: it serves the candidate still.
            if restarted.state is None or restarted.result.outcome != "served":
                decision = "aborted"
                reason = f"{reason}; the base did not come back: {restarted.result.reason}"
            else:
                held = yield Hold(below(self._hot, self._base.ceilings), stands=True, base=True)
                reason += _not_held(held, "the base's")
        if self._serving and not self._hands_off:
            self._note("return", f"the canary goes back to its own settings: {reason}")
            reason += yield from self._canary_home()
        if not self._hands_off:
            held = yield Hold(below(self._own_hot, self._state.ceilings), stands=False)
            reason += _not_held(held, "the canary's own")
        self._end(decision, reason)

    def _canary_home(self) -> Generator[OuterCommand, Seen, str]:
        """The canary on its own settings; in words what went wrong, or nothing."""
        back = yield Restart({}, "rollback", None)
        assert isinstance(back, Restarted), "a restart is answered by what came of it"
        self.spent.take(back.result)
        self._serving = 0
        # The last known good is its own, until a trial was promoted.
        home = back.result.outcome == "served" or (back.result.outcome == "returned" and not self._kept)
        if home and back.state is not None:
            self._state = back.state
            return ""
        self._hands_off = True
        return f"; the canary did not come back: {back.result.reason}"

    def _end(self, decision: Decision, reason: str) -> None:
        stood = self._stood
        super()._end(decision, reason)
        assert self.final_report is not None, "the end writes the report"
        out = decision == "promoted"
        self.final_report["cold"]["canary"] = {
            "found": None if stood is None else dict(self._moved(stood)),
            "effect": None if stood is None else stood.effect,
            "rolled_out": out,
            "roll_out": None
            if stood is None or out or decision != "kept"
            else f"start the engine with {_named(self._moved(stood))}: `trimtab apply`, or its own command line",
        }

    def _moved(self, trial: ColdTrial) -> Settings:
        return changed(trial.settings, self._cold)


def _named(settings: Settings) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _not_held(held: Seen, whose: str) -> str:
    if isinstance(held, Held) and held.reason is not None:
        return f"; {whose} hot values could not be put back: {held.reason}"
    return ""
