"""Playbooks whose restart waits for a quiet time: walked again when it comes, while their alert fires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from daemon.acting.quiet import QuietTimes, Unknown
from rules.playbook.messages import Trigger
from rules.playbook.schema import Act, Playbook

LOOK_SECONDS = 30.0


def waits_for_quiet(playbook: Playbook) -> bool:
    """Whether one of its steps restarts the engine in a quiet time only."""
    return any(
        isinstance(step, Act)
        and step.act.kind == "restart"
        and step.action().arguments.get("when") == "quietest"
        for step in playbook.steps
    )


class QuietWalks:
    """Remembers the alerts that fire for such playbooks; each comes once a quiet time, as if it fired at its begin."""

    def __init__(self, quiet: QuietTimes, playbooks: Mapping[str, Playbook]) -> None:
        self._quiet = quiet
        self._waiting = {name: one for name, one in playbooks.items() if waits_for_quiet(one)}
        self._firing: dict[str, Trigger] = {}
        self._looked = float("-inf")
        self._began: float | None = None
        self._given: set[str] = set()

    def fires(self, trigger: Trigger) -> None:
        """An alert fires."""
        if trigger.playbook in self._waiting and trigger.fingerprint:
            self._firing[trigger.fingerprint] = trigger

    def over(self, fingerprint: str) -> None:
        """It fires no more."""
        self._firing.pop(fingerprint, None)
        self._given.discard(fingerprint)

    def due(self, now: float, cooling: Mapping[str, float]) -> list[Trigger]:
        """Those whose quiet time has come; who cools down (until when, by target) is given later in it."""
        if not self._firing or now - self._looked < LOOK_SECONDS:
            return []
        self._looked = now
        try:
            began = self._quiet.began(now)
        except Unknown:
            return []
        if began is None:
            return []
        if self._began != began:
            self._began = began
            self._given.clear()
        due = []
        for fingerprint, trigger in self._firing.items():
            if fingerprint in self._given or trigger.alert_started >= began:
                continue  # it fired within this quiet time: its own walk need not wait
            if cooling.get(_target(self._waiting[trigger.playbook], trigger), 0.0) > now:
                continue
            self._given.add(fingerprint)
            due.append(replace(trigger, alert_started=began))
        return due


def _target(playbook: Playbook, trigger: Trigger) -> str:
    if playbook.target == "npu":
        return f"npu {dict(trigger.labels).get('npu', '')}".strip()
    return playbook.target
