"""What keeps playbooks from doing harm: who may walk, who may act, and why not. Pure: the runs there were come in."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from rules.actions import ActionKind
from rules.playbook.messages import Mode
from rules.playbook.schema import Playbook

HOUR = 3600.0
LONGEST_REST = 7 * 24 * HOUR
"""The longest cool-down that a playbook may ask for."""
MOST_WAITING = 100
MOST_RESTARTS = 3
"""Restarts by urgent playbooks within an hour: an engine that needs more of them needs a person."""
LONGEST_WAIT = 1800.0
"""How long a run may wait for its turn; what was wrong half an hour ago is looked at anew by the next alert."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's limits. `allow` None is every action there is."""

    disabled: frozenset[str] = frozenset()
    allow: Set[ActionKind] | None = None
    acts_per_hour: int = 4
    approval_seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class Past:
    """A run that walked and ended: how long its playbook rests on its target, and how long all that change it do.

    `changed` is what else its acts changed, which is left alone as long.
    """

    playbook: str
    target: str
    ended: float
    rest_seconds: float
    target_rest_seconds: float
    changed: frozenset[str] = frozenset()

    @property
    def watched(self) -> frozenset[str]:
        """What is left alone, as how it does after the change is watched."""
        return self.changed | {self.target}


@dataclass(frozen=True, slots=True)
class Present:
    """A run that has not ended; `holds` says that it walks and may change something, `yields` that it lets urgent ones
    begin all the same."""

    run_id: int
    playbook: str
    target: str
    waiting: bool
    holds: bool
    yields: bool = False


def rests(playbook: Playbook, window_seconds: float) -> tuple[float, float]:
    """How long a playbook rests on a target after a walk, and how long the others do, in seconds.

    An urgent one rests no longer than it says: an engine that has died twice is started twice.
    """
    least = window_seconds + playbook.verify_seconds
    return playbook.cooldown if playbook.urgent else max(playbook.cooldown, least), least


class Rails:
    """Gives the reason why not, or None."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def admit(
        self,
        playbook: Playbook,
        target: str,
        past: Sequence[Past],
        present: Sequence[Present],
        now: float,
        *,
        patient: bool = False,
    ) -> str | None:
        """Why a run is not even queued; a patient one, of an alert that goes on firing, waits for a cool-down's end."""
        if playbook.name in self.limits.disabled:
            return "the playbook is in playbooks.disabled"
        for run in present:
            if (run.playbook, run.target) == (playbook.name, target):
                return f"run {run.run_id} of the same playbook is on {target} already"
        if not patient and (resting := self._resting(playbook, target, past, now)) is not None:
            return resting
        if not playbook.urgent and sum(run.waiting for run in present) >= MOST_WAITING:
            return f"{MOST_WAITING} runs are waiting already"
        return None

    def rest_until(self, playbook: Playbook, target: str, past: Sequence[Past], *, changes: bool) -> float:
        """Until when cool-downs keep a playbook from its target (Unix seconds; 0: none does)."""
        own = max((p.ended + p.rest_seconds for p in past if _same(p, playbook, target)), default=0.0)
        if playbook.urgent or not changes:
            return own
        return max(own, _watched(playbook, target, past)[0])

    def start(
        self,
        target: str,
        past: Sequence[Past],
        present: Sequence[Present],
        *,
        changes: bool,
        stopped: str | None,
        now: float,
        playbook: Playbook | None = None,
    ) -> str | None:
        """Why a queued run has to wait; `changes` says that it may change something, dry runs do not."""
        urgent = playbook is not None and playbook.urgent
        if stopped is not None:
            return stopped
        if playbook is not None and (resting := self._resting(playbook, target, past, now)) is not None:
            return resting
        if not changes:
            return None
        holder = next((run for run in present if run.holds and not (urgent and run.yields)), None)
        if holder is not None:
            return (
                f"run {holder.run_id} ({holder.playbook}) is walking, and one at a time may change something"
            )
        until, what = _watched(playbook, target, past)
        if until > now and not urgent:
            return f"cool-down: {what} was changed, and is watched for another {_minutes(until - now)}"
        return None

    def act(
        self,
        kind: ActionKind,
        acts: Sequence[float],
        *,
        mode: Mode,
        dry: bool,
        stopped: str | None,
        now: float,
        urgent: bool = False,
    ) -> str | None:
        """Why an action may not be done; `acts` are the times of those that were. A message to people costs nothing."""
        if self.limits.allow is not None and kind not in self.limits.allow:
            return f"{kind} is not in playbooks.allow"
        if not dry and stopped is not None:
            return stopped
        if not dry and mode == "observe":
            return "the mode is observe now"
        if kind != "notify" and not urgent and self.acts_left(acts, now) == 0:
            return f"playbooks.acts_per_hour ({self.limits.acts_per_hour}) is used up"
        return None

    def gave_up(self, restarts: Sequence[float], now: float) -> str | None:
        """Why the engine is not restarted once more, as one that keeps ending; `restarts` are the times of those."""
        count = sum(time > now - HOUR for time in restarts)
        if count < MOST_RESTARTS:
            return None
        return f"the engine was restarted {count} times within an hour and does not stay up: it is left to a person"

    def _resting(self, playbook: Playbook, target: str, past: Sequence[Past], now: float) -> str | None:
        until = self.rest_until(playbook, target, past, changes=False)
        if until <= now:
            return None
        return f"cool-down: {playbook.name} rests on {target} for another {_minutes(until - now)}"

    def acts_left(self, acts: Sequence[float], now: float) -> int:
        """How many actions the hour still holds."""
        return max(0, self.limits.acts_per_hour - sum(time > now - HOUR for time in acts))


def _same(past: Past, playbook: Playbook, target: str) -> bool:
    return past.playbook == playbook.name and past.target == target


def _watched(playbook: Playbook | None, target: str, past: Sequence[Past]) -> tuple[float, str]:
    """Until when something that a playbook may change is watched after another change, and what (0: nothing is)."""
    own = {target} if playbook is None else playbook.may_change | {target}
    rests = ((p.ended + p.target_rest_seconds, what) for p in past for what in own & p.watched)
    return max(rests, default=(0.0, target))


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
