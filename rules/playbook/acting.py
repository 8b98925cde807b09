"""One act step: planned, approved where a person must, written down with its undo, then done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rules.actions import Action, Plan
from rules.playbook.ledger import Ledger, StandingAct
from rules.playbook.messages import Answer, AskApproval, DoAct, IntendAct, Observation, PlanAct, Result
from rules.playbook.undoing import GRACE_SECONDS

PLAN_SECONDS = 60.0
MOST_QUESTIONS = 3
"""A plan that is another one each time somebody approves it is not asked about for ever."""

End = Literal["done", "planned", "refused", "failed", "declined"]


@dataclass(frozen=True, slots=True)
class ActEnd:
    """How the step ended; planned: only looked at (dry run); declined: a person said no, or nobody said anything."""

    end: End
    text: str


class Acting:
    """Walks one act step. What may not be done is refused by whoever carries `PlanAct` and `IntendAct` out."""

    def __init__(self, ledger: Ledger, action: Action, *, dry: bool, approval_seconds: float) -> None:
        self.asks: AskApproval | None = None
        self.act: StandingAct | None = None
        self.asked_seconds = 0.0
        self.deadline = 0.0
        self._ledger = ledger
        self._action = action
        self._dry = dry
        self._approval_seconds = approval_seconds
        self._call: int | None = None
        self._plan: Plan | None = None
        self._approved: Plan | None = None
        self._said: Answer | None = None
        self._questions = 0
        self._asked = 0.0

    @property
    def question(self) -> AskApproval | None:
        """What it asks, until somebody has answered."""
        return self.asks if self._said is None else None

    def go(self, now: float, seen: Observation, results: Mapping[int, Result]) -> ActEnd | None:
        """Go on; None while it waits."""
        if self._call is None:
            self._look(now)
            return None
        if self.asks is not None:
            return self._listen(now, seen, self.asks)
        result = results.get(self._call)
        if result is None and now < self.deadline:
            return None
        if self.act is not None:
            return self._done(now, self.act, result)
        if self._plan is None:
            return self._planned(now, seen, result)
        return self._intended(now, self._plan, result)

    def _look(self, now: float) -> None:
        self._plan, self.asks = None, None
        self._call = self._ledger.call()
        self.deadline = now + PLAN_SECONDS
        self._ledger.out.append(PlanAct(self._ledger.run_id, self._call, self._step, self._action))

    def _planned(self, now: float, seen: Observation, result: Result | None) -> ActEnd | None:
        if result is None or result.plan is None:
            return self._refused(now, _why(result, f"no plan within {PLAN_SECONDS:g} s"))
        plan = self._plan = result.plan
        back = "" if plan.undo is not None else ", no way back"
        figures = {"kind": self._action.kind, "blast": plan.blast, "reversible": plan.undo is not None}
        self._ledger.note(now, "plan", f"{'would do' if self._dry else 'plan'}: {plan.told}{back}", figures)
        if self._dry:
            return ActEnd("planned", plan.text)
        if seen.mode == "observe":
            return self._refused(now, "the mode is observe now")
        if seen.mode == "advise" and self._action.kind != "notify" and not self._was_approved(plan):
            return self._ask(now, plan)
        self._call = self._ledger.call()
        self.deadline = now
        self._ledger.out.append(IntendAct(self._ledger.run_id, self._call, self._step, self._action, plan))
        return None

    def _ask(self, now: float, plan: Plan) -> ActEnd | None:
        if self._questions == MOST_QUESTIONS:
            return ActEnd("declined", f"the plan was another one after each of {MOST_QUESTIONS} approvals")
        self._questions += 1
        self._asked = now
        self._call = self._ledger.call()
        self.deadline = now + self._approval_seconds
        self.asks = AskApproval(self._ledger.run_id, self._call, self._step, self._action, plan)
        self._ledger.out.append(self.asks)
        again = " (the plan has changed since it was approved)" if self._approved is not None else ""
        self._ledger.note(now, "approval", f"asked: {plan.told}{again}")
        self._ledger.enter(now, "waiting_approval", plan.told)
        return None

    def _listen(self, now: float, seen: Observation, asked: AskApproval) -> ActEnd | None:
        if seen.mode == "observe":
            return self._refused(now, "the mode is observe now")
        said = self._said or next((answer for answer in seen.answers if _meant(answer, asked)), None)
        if said is None and now < self.deadline:
            return None
        if said is not None and self._said is None:
            self._said = said
            self._ledger.note(now, "approval", f"{'approved' if said.yes else 'declined'} by {said.by}")
        if said is not None and said.yes and seen.held is not None:
            self._ledger.reason = f"approved by {said.by}, waits: {seen.held}"
            return None
        self.asked_seconds += now - self._asked
        if said is None:
            text = f"nobody answered within {self._approval_seconds / 60:g} min"
            self._ledger.note(now, "approval", text)
            return ActEnd("declined", text)
        if not said.yes:
            return ActEnd("declined", f"declined by {said.by}")
        # It may have taken long: what is done is what is right now, if it still is what was approved.
        self._approved, self._said = asked.plan, None
        self._ledger.enter(now, "running")
        self._look(now)
        return None

    def _intended(self, now: float, plan: Plan, result: Result | None) -> ActEnd | None:
        if result is None or result.outcome is None or not result.outcome.ok:
            return self._refused(now, _why(result, "it could not be written down"))
        self.act = StandingAct(result.outcome.figures["act_id"], self._step, self._action, plan)
        self._ledger.acts.append(self.act)
        self._call = self._ledger.call()
        self.deadline = now + self._action.timeout_seconds + GRACE_SECONDS
        self._ledger.out.append(
            DoAct(self._ledger.run_id, self._call, self._step, self.act.act_id, self._action, plan)
        )
        return None

    def _done(self, now: float, act: StandingAct, result: Result | None) -> ActEnd:
        act.ended = now
        act.outcome = None if result is None else result.outcome
        if result is not None and result.refused is not None:
            act.state = "refused"
            return self._refused(now, result.refused)
        if act.outcome is not None and act.outcome.ok:
            act.state = "kept" if act.action.keep else "done"
            self._ledger.note(now, "act", act.outcome.text, act.outcome.figures)
            return ActEnd("done", act.outcome.text)
        act.state = "failed"
        text = _why(result, f"no answer within {self._action.timeout_seconds + GRACE_SECONDS:g} s")
        self._ledger.note(now, "act", f"failed: {text}", act.outcome.figures if act.outcome else {})
        return ActEnd("failed", text)

    def _refused(self, now: float, why: str) -> ActEnd:
        self._ledger.note(now, "act", f"refused: {why}")
        return ActEnd("refused", why)

    def _was_approved(self, plan: Plan) -> bool:
        """Whether a person said yes to just this, whatever figures stood beside it."""
        return self._approved is not None and replace(plan, seen="") == replace(self._approved, seen="")

    @property
    def _step(self) -> str:
        return self._ledger.at or ""


def _meant(answer: Answer, asked: AskApproval) -> bool:
    return answer.run_id == asked.run_id and answer.call in (None, asked.call)


def _why(result: Result | None, otherwise: str) -> str:
    if result is None:
        return otherwise
    return result.refused or (result.outcome.text if result.outcome else otherwise)
