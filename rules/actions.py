"""The port through which a playbook acts: an allow-list of actions, each planned with its undo before it is made.

Hands: `daemon.acting`; `sim` in the simulator. The hand takes the engine's one lock and writes its journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

ActionKind = Literal[
    "set_knobs",  # hot lane: {knob: value}
    "expand_batch",  # hot lane: {factor}: batch limits by a factor, inside their bounds
    "set_host",  # host lane: {knob: value}
    "restart",  # cold lane: {settings: {}, when: now} over what serves; without settings the same again
    "scale_up",  # the operator's hook or Kubernetes: {replicas: 1}
    "traffic_away",  # the operator's hook or Kubernetes: this replica gets no new requests
    "notify",  # {text}: to every webhook of `rules.webhooks`, and to the page
]
ACTION_KINDS: tuple[ActionKind, ...] = get_args(ActionKind)

CHANGED: Mapping[ActionKind, str] = {
    "set_knobs": "engine",
    "expand_batch": "engine",
    "restart": "engine",
    "traffic_away": "engine",
    "set_host": "host",
}
"""What an action changes, for cool-downs: a playbook about one card may restart the engine of all of them."""

CaptureKind = Literal["msprof", "plog", "dmesg", "memory"]
CAPTURE_KINDS: tuple[CaptureKind, ...] = get_args(CaptureKind)

Blast = Literal["none", "engine", "node", "service"]
"""Whom an action can harm: nobody, this engine's users, every engine of the host, every replica."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a step asks for, with its variables filled in."""

    kind: ActionKind
    arguments: Mapping[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 60.0
    keep: bool = False
    """Whether it stays once it is done, whatever becomes of the walk: a person puts it back."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action would do here: `text` for whoever approves it; `undo` is JSON that `Hands.undo` takes, None where
    there is no way back (`reversible` is false then)."""

    text: str
    blast: Blast
    reversible: bool
    undo: Mapping[str, Any] | None = None
    seen: str = ""
    """A figure of the moment for whoever approves; another one by then makes it no other plan."""

    @property
    def told(self) -> str:
        """The text with what was seen."""
        return f"{self.text} ({self.seen})" if self.seen else self.text


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action, an undo or a capture, with the figures it saw."""

    ok: bool
    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)


class ActionRefused(Exception):
    """The action is not possible here (no hook, out of bounds, mode, lock); the text says why. Nothing was done."""


class Hands(Protocol):
    """Everything a playbook may do outside of itself."""

    async def plan(self, action: Action, now: float) -> Plan:
        """Look what the action would do, and change nothing. Raises `ActionRefused`."""
        ...

    async def act(self, action: Action, plan: Plan, now: float) -> Outcome:
        """Do it, at most for `timeout_seconds`; a running trial is ended first. Raises `ActionRefused`."""
        ...

    async def undo(self, action: Action, undo: Mapping[str, Any], now: float) -> Outcome:
        """Put back what stood before; asked again after a crash, so that twice is as good as once."""
        ...

    async def capture(self, kind: CaptureKind, seconds: float, now: float) -> Outcome:
        """Record evidence for at most `seconds`; the outcome's figures say where it is."""
        ...
