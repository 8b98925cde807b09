"""What a restart is asked to do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from change.server import LaunchCommand, Settings

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
    "effective",
    "open",
]
"""In their order; `release` waits until the device memory of the old engine is really free, `load` follows the log."""

Outcome = Literal["served", "refused", "returned", "down"]
"""The new command serves; nothing was stopped; the last known good serves again; nothing serves and nothing more is
tried."""


@dataclass(frozen=True, slots=True)
class RestartOrder:
    """One restart: the cold settings that differ from now, the command they make, by whom and why.

    `campaign_id` is the campaign behind it, if any. `settings` is empty for a restart with nothing changed.
    """

    settings: Settings
    command: LaunchCommand
    actor: str
    kind: Literal["trial", "promotion", "manual", "rollback"] = "manual"
    campaign_id: int | None = None


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
    accuracy_passed: bool | None = None
    """Whether the golden prompts were answered as expected; None if none were asked."""


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
    ) -> RestartResult:
        """Restart with `settings` over the launch command; the last known good comes back if it fails.

        A promotion of settings that serve already as a trial restarts nothing (`down_seconds` 0): what serves becomes
        the last known good and what the next start by anybody uses. A trial that stands when its caller has died is no
        last known good: recovery goes back from it.
        """
        ...
