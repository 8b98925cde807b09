"""A run that a crash cut off: what it had done is put back, what has no way back or is to be kept is offered."""

from __future__ import annotations

from rules.playbook.ending import Ending
from rules.playbook.ledger import Ledger, StandingAct
from rules.playbook.messages import ENDED, Command, Observation

CUT_OFF = "Trimtab was stopped in the middle of this run"


class Recovery:
    """Ends a run that was cut off after it had begun to act. An act that was only intended may have been done."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.resolved = False
        self.question = None
        self.answer_by = None
        back = any(
            act.state == "undone" or (act.undoable and act.state != "kept" and not act.stays)
            for act in ledger.acts
        )
        state = "rolled_back" if back and not self.offers else "abandoned"
        self._ending = Ending(ledger, state, CUT_OFF)

    @property
    def offers(self) -> list[StandingAct]:
        """Acts that may be half done and are not put back: without a way back, or with `keep`."""
        return [act for act in self.ledger.acts if act.lasting]

    def step(self, now: float, seen: Observation) -> tuple[Command, ...]:
        """Go on with putting back; nothing new is ever done here."""
        results = {result.call: result for result in seen.results if result.run_id == self.ledger.run_id}
        if self.ledger.state not in ENDED:
            self._ending.go(now, results)
        return self.ledger.drain()
