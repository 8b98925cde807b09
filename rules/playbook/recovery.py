"""A run that was cut off, by a crash or by one that cannot wait: what it did is put back, or offered if it is kept."""

from __future__ import annotations

from rules.playbook.ending import Ending
from rules.playbook.judging import Judge
from rules.playbook.ledger import Ledger, StandingAct
from rules.playbook.messages import ENDED, Command, Observation

CUT_OFF = "Trimtab was stopped in the middle of this run"
SERVES = 'trimtab_collector_success{collector=~"vllm|sglang|mindie"} == 1'
LOAD_SECONDS = 3600.0
"""Longest wait for an engine that does not answer: the largest loads take less."""
UNKNOWN_SECONDS = 10.0
"""For the first reading of whether it answers; without one nobody knows better than the act's own undo."""
WITHOUT_ENGINE = frozenset({"set_host", "restart", "notify"})
"""What can be put back though the engine does not answer. Traffic and replicas are not: requests would go nowhere."""


class Recovery:
    """Ends a run that was cut off after it had begun to act. An act that was only intended may have been done.

    It waits for the engine, and tries what is stuck again for hours; an urgent run may begin meanwhile.
    """

    def __init__(
        self, ledger: Ledger, now: float, why: str = CUT_OFF, *, gives_way_at: float | None = None
    ) -> None:
        """`gives_way_at` is when an urgent run need wait for it no longer, whatever it does then."""
        self.ledger = ledger
        self.resolved = False
        self.question = None
        self.answer_by = None
        self.free = True
        """Whether no urgent run changes the engine now."""
        self.gives_way_at = gives_way_at
        self._begun = now
        self._now = now
        self._serves = False
        self._judge = Judge({})
        back = any(
            act.state == "undone" or (act.undoable and act.state != "kept" and not act.stays)
            for act in ledger.acts
        )
        state = "rolled_back" if back and not self.offers else "abandoned"
        self._ending = Ending(ledger, state, why, patient=True, ready=self._ready)

    @property
    def offers(self) -> list[StandingAct]:
        """Acts that may be half done and are not put back: without a way back, or with `keep`."""
        return [act for act in self.ledger.acts if act.lasting]

    @property
    def stuck(self) -> list[str]:
        """What could not be put back yet, and is tried again."""
        return list(self._ending.undoing.again.values())

    @property
    def yields(self) -> bool:
        """Whether an urgent run may begin: nothing is put back now, or its time for that is over."""
        if not self.free or (self.gives_way_at is not None and self._now >= self.gives_way_at):
            return True
        undoing = self._ending.undoing
        act = undoing.next
        waits = undoing.waits_for_long or (act is not None and not self._ready(act))
        return not undoing.asking and waits

    def step(self, now: float, seen: Observation) -> tuple[Command, ...]:
        """Go on with putting back; nothing new is ever done here."""
        results = {result.call: result for result in seen.results if result.run_id == self.ledger.run_id}
        self._now, self._serves = now, self._looks_served(now, seen)
        if self.ledger.state not in ENDED:
            self._ending.go(now, results)
        return self.ledger.drain()

    def _ready(self, act: StandingAct) -> bool:
        return self.free and (self._serves or act.action.kind in WITHOUT_ENGINE)

    def _looks_served(self, now: float, seen: Observation) -> bool:
        judged = self._judge.judge(SERVES, seen.readings, now)
        fresh = judged.newest is not None and judged.newest > self._begun
        waited = now - self._begun
        if judged.verdict == "no":
            return waited >= LOAD_SECONDS
        return (judged.verdict == "yes" and fresh) or waited >= UNKNOWN_SECONDS
