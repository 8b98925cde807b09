"""Putting acts back, the newest first, each until it is back or has failed too often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rules.playbook.ledger import Ledger, StandingAct
from rules.playbook.messages import Result, UndoAct

ATTEMPTS = 3
PAUSE_SECONDS = 20.0
GRACE_SECONDS = 30.0
"""What an answer may take beyond the action's own time-out."""


class Undoing:
    """Puts acts back; `undone` counts those that are, `stuck` says which are not."""

    def __init__(self, ledger: Ledger, acts: Iterable[StandingAct]) -> None:
        self.undone = 0
        self.stuck: list[str] = []
        self._ledger = ledger
        self._left = sorted((act for act in acts if act.undoable), key=lambda act: act.act_id)
        self._call: int | None = None
        self._deadline = 0.0
        self._not_before = 0.0
        self._attempts = 0

    def go(self, now: float, results: Mapping[int, Result]) -> bool:
        """Go on; true once nothing is left to do."""
        while self._left:
            act = self._left[-1]
            if self._call is None:
                if now < self._not_before:
                    return False
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
            self._ledger.note(now, "undo", f"{act.step}: put back: {outcome.text}", outcome.figures)
            self._next()
            return
        why = "no answer in time"
        if result is not None:
            why = result.refused or (outcome.text if outcome else "no outcome")
        self._ledger.note(
            now, "undo", f"{act.step}: not put back (attempt {self._attempts} of {ATTEMPTS}): {why}"
        )
        if self._attempts < ATTEMPTS:
            self._not_before = now + PAUSE_SECONDS
        else:
            self.stuck.append(f"{act.step} ({act.plan.text}): {why}")
            self._next()

    def _next(self) -> None:
        self._left.pop()
        self._attempts, self._not_before = 0, 0.0
