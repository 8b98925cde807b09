"""One walk of a playbook: what it sees goes in, what it wants done comes out. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping

from rules.playbook.acting import ActEnd, Acting
from rules.playbook.arguments import filled
from rules.playbook.ending import Ending
from rules.playbook.flow import way
from rules.playbook.judging import Judge, Judgement
from rules.playbook.ledger import Ledger
from rules.playbook.messages import ENDED, AskApproval, Command, NoteKind, Observation, Result, TakeCapture
from rules.playbook.schema import Act, Capture, Check, Diagnose, Playbook, Step, Verify
from rules.playbook.undoing import Undoing
from rules.playbook.variables import VariableError, said

MOST_STEPS = 100
"""Steps of one walk; a playbook that goes round ends here."""
LONGEST_SECONDS = 4 * 3600.0
"""A whole walk without the time that it waits for people: nothing else may change the engine meanwhile."""
CAPTURE_GRACE_SECONDS = 60.0
FINISH_PROFILE_SECONDS = 600.0
"""What the engine may take to write a profile once it is recorded, where nothing else is configured."""
SETTLE_SECONDS = 15.0
"""A verification of something that is absent has no reading to show that it looked after the act."""


class Run:
    """A walk. A dry one plans its acts, does none, and ends where it would have had to verify."""

    def __init__(
        self,
        ledger: Ledger,
        playbook: Playbook,
        values: Mapping[str, str],
        *,
        dry: bool,
        approval_seconds: float,
        finish_profile_seconds: float = FINISH_PROFILE_SECONDS,
    ) -> None:
        self.ledger = ledger
        self.resolved = False
        """Whether the alert is over: a walk that has done nothing yet ends before its first act."""
        self._playbook = playbook
        self._values = {**playbook.variables, **{name: value for name, value in values.items() if value}}
        self._judge = Judge(self._values)
        self._dry = dry
        self._approval_seconds = approval_seconds
        self._finish_profile = finish_profile_seconds
        self._step: Step | None = None
        self._taken = 0
        self._asked_seconds = 0.0
        self._entered = 0.0
        self._held_since: float | None = None
        self._acting: Acting | None = None
        self._capture: tuple[int, float] | None = None
        self._mending: tuple[Undoing, str] | None = None
        self._acted_at = 0.0
        self._would: list[str] = []
        self._ending: Ending | None = None

    @property
    def question(self) -> AskApproval | None:
        """What it asks a person now."""
        return None if self._acting is None or self._ending is not None else self._acting.question

    @property
    def answer_by(self) -> float | None:
        """Until when it waits for the answer."""
        return None if self.question is None or self._acting is None else self._acting.deadline

    def step(self, now: float, seen: Observation) -> tuple[Command, ...]:
        """Go on as far as what is seen allows; every answer it waits for has a time-out."""
        ledger = self.ledger
        results = {result.call: result for result in seen.results if result.run_id == ledger.run_id}
        if self._step is None and self._ending is None and ledger.state not in ENDED:
            ledger.enter(now, "running")
            self._go_to(now, self._playbook.steps[0].name, "")
        while ledger.state not in ENDED and self._advance(now, seen, results):
            pass
        return ledger.drain()

    def _advance(self, now: float, seen: Observation, results: Mapping[int, Result]) -> bool:
        """One move; false once it waits. The steps of a walk are counted, so the moves have an end."""
        if self._ending is not None:
            return self._ending.go(now, results)
        if self._mending is not None:
            return self._mend(now, results, *self._mending)
        match self._step:
            case Check():
                return self._check(now, seen, self._step)
            case Verify():
                return self._verify(now, seen, self._step)
            case Capture():
                return self._take(now, seen, results, self._step)
            case Diagnose():
                return self._diagnose(now, seen, self._step)
            case Act():
                return self._act(now, seen, results, self._step)
        raise AssertionError("a walk stands at a step")

    def _check(self, now: float, seen: Observation, step: Check) -> bool:
        judged = self._judge.judge(step.check, seen.readings, now)
        if judged.verdict != "yes" and now - self._entered < step.within:
            return False
        told = self._judge.told(step.check)
        text = {"yes": "holds", "no": "does not hold", "unknown": "cannot be known: no readings"}[
            judged.verdict
        ]
        if step.within and judged.verdict != "yes":
            text += f" within {step.within:g} s"
        self._note(now, "check", f"{told}: {text}", seen, judged)
        self._go_to(now, way(self._playbook, step, judged.verdict), f"{step.name}: {told}: {text}")
        return True

    def _verify(self, now: float, seen: Observation, step: Verify) -> bool:
        if self._dry:
            self._finish_dry(now, seen, step)
            return True
        self.ledger.enter(now, "verifying")
        judged = self._judge.judge(step.verify, seen.readings, now)
        if judged.verdict == "yes" and self._fresh(now, judged):
            self._held_since = now if self._held_since is None else self._held_since
            if now - self._held_since >= step.for_:
                self._keep()
                text = f"held for {now - self._held_since:.0f} s" if step.for_ else "holds"
                self._verified(now, seen, step, judged, "yes", text)
                return True
        else:
            self._held_since = None
        if now - self._entered < step.within:
            return False
        verdict = "unknown" if judged.verdict == "unknown" else "no"
        text = "cannot be known: no readings" if verdict == "unknown" else "did not come to hold"
        self._verified(now, seen, step, judged, verdict, f"{text} within {step.within:g} s")
        return True

    def _verified(
        self, now: float, seen: Observation, step: Verify, judged: Judgement, verdict: str, text: str
    ) -> None:
        told = self._judge.told(step.verify)
        self._note(now, "verify", f"{told}: {text}", seen, judged)
        self.ledger.enter(now, "running")
        self._go_to(now, way(self._playbook, step, verdict), f"{step.name}: {told}: {text}")

    def _fresh(self, now: float, judged: Judgement) -> bool:
        """Whether what was judged was read after the last act: what it was before proves nothing."""
        if judged.newest is None:
            return now >= self._acted_at + SETTLE_SECONDS
        return judged.newest > self._acted_at

    def _keep(self) -> None:
        for act in self.ledger.acts:
            if act.state == "done":
                act.state = "kept"

    def _take(self, now: float, seen: Observation, results: Mapping[int, Result], step: Capture) -> bool:
        failed = way(self._playbook, step, "failed")
        if self._capture is None:
            why = self._no_capture(seen, step)
            if why is not None:
                self._note(now, "capture", f"{step.capture}: not taken: {why}", seen)
                self._go_to(now, failed, f"{step.name}: {why}")
                return True
            more = self._finish_profile if step.capture == "msprof" else 0.0
            self._capture = (self.ledger.call(), now + step.seconds + CAPTURE_GRACE_SECONDS + more)
            self.ledger.out.append(
                TakeCapture(self.ledger.run_id, self._capture[0], step.name, step.capture, step.seconds)
            )
            return False
        call, deadline = self._capture
        result = results.get(call)
        if result is None and now < deadline:
            return False
        outcome = None if result is None else result.outcome
        if outcome is not None and outcome.ok:
            self._note(now, "capture", f"{step.capture}: {outcome.text}", seen, more=outcome.figures)
            self._go_to(now, way(self._playbook, step, "then"), "")
            return True
        why = "no answer in time"
        if result is not None:
            why = result.refused or (outcome.text if outcome else "no outcome")
        self._note(now, "capture", f"{step.capture}: failed: {why}", seen)
        self._go_to(now, failed, f"{step.name}: {why}")
        return True

    def _no_capture(self, seen: Observation, step: Capture) -> str | None:
        if step.capture != "msprof":
            return None
        if self._dry or seen.mode == "observe":
            return "a recording by msprof costs speed, and this run only looks"
        return seen.stopped

    def _diagnose(self, now: float, seen: Observation, step: Diagnose) -> bool:
        try:
            text = said(step.diagnose, self._values)
        except VariableError as error:
            text = f"{step.diagnose} ({error})"
        self.ledger.cause = step.cause
        self._note(now, "diagnose", f"{step.cause}: {text}", seen)
        self._go_to(now, way(self._playbook, step, "then"), text)
        return True

    def _act(self, now: float, seen: Observation, results: Mapping[int, Result], step: Act) -> bool:
        waits = self._acting is None or self._acting.asks is not None
        if self.resolved and waits and not self.ledger.acts and not self._dry:
            why = "the alert resolved by itself before anything was done"
            self._note(now, "act", f"not done: {why}", seen)
            self._finish(now, "skipped", why)
            return True
        if self._acting is None:
            try:
                action = filled(step.action(), self._values)
            except VariableError as error:
                self._note(now, "act", f"refused: {error}", seen)
                self._go_to(now, step.failed, f"{step.name}: {error}")
                return True
            self._acting = Acting(self.ledger, action, dry=self._dry, approval_seconds=self._approval_seconds)
        ended = self._acting.go(now, seen, results)
        if ended is None:
            return False
        self._asked_seconds += self._acting.asked_seconds
        if step.figures:
            self._note(now, "act", ended.end, seen)
        self._acted(now, step, ended)
        return True

    def _acted(self, now: float, step: Act, ended: ActEnd) -> None:
        act = self._acting.act if self._acting else None
        if ended.end == "declined":
            begun = any(act.undoable or act.lasting for act in self.ledger.acts)
            self._finish(now, "failed" if begun else "skipped", f"{step.name}: {ended.text}")
            return
        self.ledger.enter(now, "running")
        if ended.end == "done":
            self._acted_at = now
            self._go_to(now, way(self._playbook, step, "then"), "")
        elif ended.end == "planned":
            self._would.append(ended.text)
            self._go_to(now, way(self._playbook, step, "then"), "")
        elif act is not None and act.state == "failed" and act.undoable:
            # It may be half done, and what comes next must not build on that.
            self._mending = (Undoing(self.ledger, [act]), f"{step.name}: {ended.text}")
        else:
            self._go_to(now, step.failed, f"{step.name}: {ended.end}: {ended.text}")

    def _mend(self, now: float, results: Mapping[int, Result], undoing: Undoing, why: str) -> bool:
        if not undoing.go(now, results):
            return False
        self._mending = None
        assert isinstance(self._step, Act)
        if undoing.stuck:
            stuck = "; ".join(undoing.stuck)
            self._finish(now, "failed", f"{why}; and it could not be put back: {stuck}")
        else:
            self._acted_at = now
            self._go_to(now, self._step.failed, why)
        return True

    def _note(
        self,
        now: float,
        kind: NoteKind,
        text: str,
        seen: Observation,
        judged: Judgement | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        wanted = {} if self._step is None else self._step.figures
        figures = {
            **self._judge.figures(wanted, seen.readings, now),
            **(judged.figures if judged else {}),
            **(more or {}),
        }
        self.ledger.note(now, kind, text, figures)

    def _go_to(self, now: float, target: str, why: str) -> None:
        if target == "undo":
            self._finish(now, "rolled_back", why)
            return
        if target.startswith("end:"):
            self._finish(now, target.removeprefix("end:"), why)
            return
        self._taken += 1
        begun = self.ledger.started if self.ledger.started is not None else now
        if self._taken > MOST_STEPS:
            self._finish(now, "failed", f"more than {MOST_STEPS} steps: the playbook goes round")
        elif now - begun - self._asked_seconds > LONGEST_SECONDS:
            self._finish(now, "failed", f"longer than {LONGEST_SECONDS / 3600:g} h")
        else:
            self._step = self._playbook.steps[self._playbook.index[target]]
            self.ledger.at = target
            self._entered, self._held_since = now, None
            self._acting, self._capture = None, None

    def _finish_dry(self, now: float, seen: Observation, step: Verify) -> None:
        told = self._judge.told(step.verify)
        self._note(now, "verify", f"{told}: not looked at: nothing was done", seen)
        self._finish(now, "skipped", f"{'then verified' if self._would else 'nothing to verify'}: {told}")

    def _finish(self, now: float, state: str, why: str) -> None:
        if self._dry and (self._would or state == "skipped"):
            would = ", then ".join(self._would) or "done nothing"
            state, why = "skipped", f"dry run: would have {would}" + (f"; {why}" if why else "")
        self._ending = Ending(self.ledger, state, why, everything=state == "rolled_back")
