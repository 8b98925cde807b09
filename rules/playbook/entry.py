"""One run among the others: whether it lives, what it holds, to whom it gives way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rules.actions import CHANGED
from rules.playbook.messages import ENDED
from rules.playbook.rails import Present
from rules.playbook.recovery import Recovery
from rules.playbook.run import Run
from rules.playbook.run_store import Kept
from rules.playbook.schema import Playbook
from rules.playbook.views import RunView


@dataclass(slots=True)
class Entry:
    """A run and its mind; `waits` says why it has not begun, `changes` whether it may change anything."""

    kept: Kept
    mind: Run | Recovery | None = None
    resolved: bool = False
    changes: bool = False
    urgent: bool = False
    waits: str | None = None

    @property
    def live(self) -> bool:
        return self.kept.ledger.state not in ENDED

    @property
    def begun(self) -> bool:
        """Whether it has changed something."""
        return any(act.touched for act in self.kept.ledger.acts)

    @property
    def holds(self) -> bool:
        """Whether no other run may change anything: it walks, and does more than wait for leave to begin."""
        asks = self.kept.ledger.state == "waiting_approval" and not self.begun
        return self.mind is not None and self.changes and self.live and not asks

    @property
    def yields(self) -> bool:
        """Whether it lets an urgent run begin all the same."""
        return isinstance(self.mind, Recovery) and self.mind.yields

    @property
    def restarting(self) -> bool:
        """Whether it restarts the engine now, which nobody should do again meanwhile."""
        return any(act.action.kind == "restart" and act.state == "intended" for act in self.kept.ledger.acts)

    def rest(self) -> None:
        """Note what rests after its end: what its acts changed too. A walk that did nothing lets others at its target,
        and an urgent one itself, as what it did not see yet may come true at once."""
        memory, kinds = self.kept.memory, {act.action.kind for act in self.kept.ledger.acts if act.touched}
        if kinds:
            memory["changed"] = sorted({CHANGED[kind] for kind in kinds if kind in CHANGED})
        elif not self.kept.dry:
            memory["target_rest_seconds"] = 0.0
            if self.urgent:
                memory["rest_seconds"] = 0.0

    def present(self) -> Present:
        """What the rails look at."""
        ledger = self.kept.ledger
        return Present(
            ledger.run_id,
            ledger.playbook,
            ledger.target,
            waiting=self.mind is None,
            holds=self.holds,
            yields=self.yields,
        )

    def view(self, playbooks: Mapping[str, Playbook]) -> RunView:
        """What the page shows."""
        kept, ledger = self.kept, self.kept.ledger
        playbook = playbooks.get(ledger.playbook)
        asks = None if self.mind is None else self.mind.question
        return RunView(
            ledger.run_id,
            ledger.playbook,
            ledger.playbook if playbook is None else playbook.title,
            ledger.target,
            kept.trigger.labels,
            ledger.state,
            ledger.at,
            self.waits if ledger.state == "queued" else ledger.reason,
            ledger.cause,
            kept.dry,
            kept.queued,
            ledger.started,
            None if asks is None else asks.plan.told,
            None if asks is None else asks.call,
            None if self.mind is None else self.mind.answer_by,
        )
