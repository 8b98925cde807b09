"""Putting acts back, the newest first, each until it is back or has failed too often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rules.playbook.ledger import Ledger, StandingAct
from rules.playbook.messages import Result, UndoAct

ATTEMPTS = 3
PAUSE_SECONDS = 20.0
GRACE_SECONDS = 30.0
"""What an answer may take beyond the action's own time-out."""
SLOW_PAUSE_SECONDS = 300.0
SLOW_SECONDS = 2 * 3600.0
"""How long what is stuck is tried again, where nobody waits for the end."""


class Undoing:
    """Puts acts back; `undone` counts those that are, `stuck` says which are not."""

    def __init__(
        self,
        ledger: Ledger,
        acts: Iterable[StandingAct],
        *,
        patient: bool = False,
        ready: Callable[[StandingAct], bool] = lambda act: True,
    ) -> None:
        """A patient one tries what is stuck again for hours; `ready` says whether an act may be put back now."""
        self.undone = 0
        self.stuck: list[str] = []
        self.again: dict[int, str] = {}
        """What is stuck and tried again later, by act, in words."""
        self._ledger = ledger
        self._left = sorted((act for act in acts if act.undoable), key=lambda act: act.act_id)
        self._later: list[StandingAct] = []
        self._patient = patient
        self._patient_until: float | None = None
        self._ready = ready
        self._call: int | None = None
        self._deadline = 0.0
        self._not_before = 0.0
        self._attempts = 0

    @property
    def asking(self) -> bool:
        """Whether an answer is waited for."""
        return self._call is not None

    @property
    def waits_for_long(self) -> bool:
        """Whether it has tried everything, and pauses before it tries what is stuck again."""
        return self._patient_until is not None and not self.asking

    @property
    def next(self) -> StandingAct | None:
        """What is put back next."""
        return self._left[-1] if self._left else None

    def go(self, now: float, results: Mapping[int, Result]) -> bool:
        """Go on; true once nothing is left to do."""
        while self._left or self._later:
            if not self._left:
                self._left, self._later = self._later[::-1], []
                self._not_before = now + SLOW_PAUSE_SECONDS
            act = self._left[-1]
            if self._call is None:
                if now >= self._not_before and self._ready(act):
                    self._ask(now, act)
                return False
            result = results.get(self._call)
            if result is None and now < self._deadline:
                return False
            self._call = None
            self._hear(now, act, result)
        return True

    def _ask(self, now: float, act: StandingAct) -> None:
        assert act.plan.undo is not None
        self._call = self._ledger.call()
        self._attempts += 1
        self._deadline = now + act.action.timeout_seconds + GRACE_SECONDS
        self._ledger.out.append(
            UndoAct(self._ledger.run_id, self._call, act.act_id, act.action, act.plan.undo)
        )

    def _hear(self, now: float, act: StandingAct, result: Result | None) -> None:
        outcome = None if result is None else result.outcome
        if outcome is not None and outcome.ok:
            act.state, act.ended = "undone", now
            self.undone += 1
            self.again.pop(act.act_id, None)
            self._ledger.note(now, "undo", f"{act.step}: put back: {outcome.text}", outcome.figures)
            self._next()
            return
        why = "no answer in time"
        if result is not None:
            why = result.refused or (outcome.text if outcome else "no outcome")
        told = f"{act.step} ({act.plan.text}): {why}"
        known = act.act_id in self.again
        which = "tried again" if known else f"attempt {self._attempts} of {ATTEMPTS}"
        self._ledger.note(now, "undo", f"{act.step}: not put back ({which}): {why}")
        if self._attempts < ATTEMPTS and not known:
            self._not_before = now + PAUSE_SECONDS
        elif self._patient and self._has_time(now):
            self.again[act.act_id] = told
            self._later.append(act)
            self._next()
        else:
            self.again.pop(act.act_id, None)
            self.stuck.append(told)
            self._next()

    def _has_time(self, now: float) -> bool:
        if self._patient_until is None:
            self._patient_until = now + SLOW_SECONDS
        return now < self._patient_until

    def _next(self) -> None:
        self._left.pop()
        self._attempts, self._not_before = 0, 0.0
