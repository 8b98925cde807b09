"""Playbooks whose restart waits for a quiet time: walked again when it comes, while their alert fires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from daemon.acting.quiet import QuietTimes, Unknown
from rules.playbook.intake import target_of
from rules.playbook.messages import RunChanged, Trigger
from rules.playbook.rails import rests
from rules.playbook.schema import Act, Playbook

LOOK_SECONDS = 30.0
MOST_FIRING = 200
"""Alerts that are remembered: those from outside may never say that they are over. The oldest are forgotten."""


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
        self._rests: dict[tuple[str, str], float] = {}

    def fires(self, trigger: Trigger) -> None:
        """An alert fires."""
        if trigger.playbook in self._waiting and trigger.fingerprint:
            self._firing.pop(trigger.fingerprint, None)
            self._firing[trigger.fingerprint] = trigger
            if len(self._firing) > MOST_FIRING:
                self.over(next(iter(self._firing)))

    def over(self, fingerprint: str) -> None:
        """It fires no more."""
        self._firing.pop(fingerprint, None)
        self._given.discard(fingerprint)

    def ended(self, change: RunChanged) -> None:
        """A run came to its end: its playbook rests, and is not walked again before that."""
        playbook = self._waiting.get(change.playbook)
        if playbook is not None and change.state != "skipped":
            window = max(
                (one.window_seconds for one in self._firing.values() if one.playbook == change.playbook),
                default=0.0,
            )
            self._rests = {key: until for key, until in self._rests.items() if until > change.time}
            self._rests[change.playbook, change.target] = change.time + rests(playbook, window)[0]

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
            playbook = self._waiting[trigger.playbook]
            target = target_of(playbook, trigger.labels)
            rest = self._rests.get((trigger.playbook, target), 0.0)
            watched = (cooling.get(what, 0.0) for what in playbook.may_change | {target})
            if max(rest, *watched) > now:
                continue
            self._given.add(fingerprint)
            due.append(replace(trigger, alert_started=began))
        return due
