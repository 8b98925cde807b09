"""The end of a walk: what is not verified is put back, and the state says what is true afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from rules.playbook.ledger import Ledger, StandingAct
from rules.playbook.messages import Result, RunState
from rules.playbook.undoing import Undoing


class Ending:
    """Ends a run in a state; what no step has verified is put back, and with `everything` what was verified too.

    What a step with `keep` has done stays in either case.
    """

    def __init__(self, ledger: Ledger, state: str, why: str, *, everything: bool = False) -> None:
        self._ledger = ledger
        self._state = cast(RunState, state)
        self._why = why
        back = [act for act in ledger.acts if not act.stays and (everything or act.state != "kept")]
        self._undoing = Undoing(ledger, back)

    def go(self, now: float, results: Mapping[int, Result]) -> bool:
        """Go on; true once the run has ended."""
        if not self._undoing.go(now, results):
            return False
        state, texts = self._state, [self._why] if self._why else []
        lasting = [act for act in self._ledger.acts if act.lasting]
        if self._undoing.undone:
            texts.append(f"put back: {_listed(self._undoing.undone)}")
        kept = [act for act in self._ledger.acts if act.stays]
        for said, acts in (
            ("no way back from", [act for act in lasting if not act.stays]),
            ("stays until a person puts it back", [act for act in kept if act.state == "kept"]),
            ("may be done, and is not put back", [act for act in kept if act.state != "kept"]),
        ):
            if acts and state != "succeeded":
                texts.append(f"{said}: {'; '.join(_told(act) for act in acts)}")
        if state == "rolled_back" and not any(act.state == "undone" for act in self._ledger.acts):
            state = "failed"
        if self._undoing.stuck:
            state = "failed"
            texts.append(f"could not be put back, do it by hand: {'; '.join(self._undoing.stuck)}")
        self._ledger.enter(now, state, "; ".join(texts) or None)
        return True


def _told(act: StandingAct) -> str:
    return f"{act.step} ({act.plan.text})"


def _listed(count: int) -> str:
    return "one act" if count == 1 else f"{count} acts"
