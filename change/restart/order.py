"""What a restart is asked to do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from change.engine import Values
from change.server import LaunchCommand, Setting, Settings

Phase = Literal[
    "preflight",
    "gate",
    "drain",
    "stop",
    "release",
    "start",
    "load",
    "health",
    "probe",
    "warm_up",
    "accuracy",
    "effective",
    "open",
]
"""In their order; `release` waits until the device memory of the old engine is really free, `load` follows the log,
`accuracy` comes only where the settings ask for it."""

Outcome = Literal["served", "refused", "returned", "down"]
"""The new command serves; nothing was stopped; the last known good serves again; nothing serves and nothing more is
tried."""


@dataclass(frozen=True, slots=True)
class RestartOrder:
    """One restart: the cold settings that differ from now, the command they make, by whom and why.

    `campaign_id` is the campaign behind it, if any. `settings` is empty for a restart with nothing changed. `hot` are
    the hot values to serve with before the gate opens; None: those that were set on purpose before, less the knobs
    that `settings` names. `undoes` are the journal entries that a rollback takes back. `urgent`: the engine is dead or
    answers nothing, so that nothing is waited for that cannot come.
    """

    settings: Settings
    command: LaunchCommand
    actor: str
    kind: Literal["trial", "promotion", "manual", "rollback"] = "manual"
    campaign_id: int | None = None
    hot: Values | None = None
    undoes: tuple[int, ...] = ()
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A setting that the engine ignored, clamped or removed: its other values are not worth a restart either."""

    knob: str
    requested: Setting
    effective: Setting

    def __str__(self) -> str:
        return f"{self.knob} is {self.effective}, not {self.requested} as asked"


Accuracy = Literal["passed", "failed", "not_asked"]
"""What the golden prompts said of the settings; `not_asked` where none of them can change an answer."""


@dataclass(frozen=True, slots=True)
class RestartResult:
    """What came of it: `phase` is where it ended (`open` when it served).

    `effective` are the settings the engine says it has; `seconds` how long each phase took; `down_seconds` from the
    gate's closing to its opening, of which `own_seconds` is what Trimtab itself spent, outside the engine's own
    drain, end and load.
    """

    outcome: Outcome
    phase: Phase
    reason: str
    effective: Settings = field(default_factory=dict)
    seconds: Mapping[Phase, float] = field(default_factory=dict)
    down_seconds: float = 0.0
    own_seconds: float = 0.0
    entry_id: int | None = None
    """The journal's entry, None if nothing was begun."""
    mismatches: tuple[Mismatch, ...] = ()
    accuracy: Accuracy = "not_asked"
    sign: str | None = None
    """The log signature that names the failure, such as `npu_out_of_memory`."""
    log: tuple[str, ...] = ()
    """The end of the failed start's log; empty when it served."""


class ColdLane(Protocol):
    """What the outer loop of a campaign needs of an engine's cold lane."""

    async def settings(self) -> Settings:
        """Return the effective cold settings of the engine that serves."""
        ...

    async def problems(self, settings: Settings) -> list[str]:
        """Say in words why `settings` can never start here (flag, gate, memory plan), without stopping anything."""
        ...

    async def restart(
        self,
        settings: Settings,
        *,
        actor: str,
        kind: Literal["trial", "promotion", "manual", "rollback"],
        campaign_id: int | None = None,
        hot: Values | None = None,
    ) -> RestartResult:
        """Restart with `settings` over the launch command; the last known good comes back if it fails.

        `hot` as in `RestartOrder`. A trial that serves stays open in the journal until the next restart: a crash
        meanwhile goes back. A promotion of what a trial serves with restarts nothing (`down_seconds` 0): it becomes
        the last known good and what the next start by anybody uses.
        """
        ...
