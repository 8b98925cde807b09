"""What a restart is made of: the ports it works on, and what its caller decides for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from change.clock import Clock
from change.engine import EngineControl
from change.journal import Journal
from change.lock import EngineLock
from change.restart.memory import MemoryPlan
from change.restart.order import Mismatch, Phase, RestartOrder
from change.restart.ports import Ground, Probe
from change.restart.settings import RestartSettings
from change.server import EngineServer, LaunchCommand, Settings


class PhaseFailed(Exception):
    """A phase did not come to its end; the text says why."""

    def __init__(self, phase: Phase, text: str, *, mismatches: tuple[Mismatch, ...] = ()) -> None:
        super().__init__(text)
        self.phase: Phase = phase
        self.mismatches = mismatches


async def _nothing(settings: Settings, command: LaunchCommand) -> list[str]:
    return []


async def _no_plan(command: LaunchCommand) -> MemoryPlan | None:
    return None


def _always(order: RestartOrder, now: float) -> str | None:
    return None


def _unnamed(line: str) -> str | None:
    return None


def _never(settings: Settings) -> bool:
    return False


def different(requested: Settings, effective: Settings) -> list[Mismatch]:
    """The settings that are known to be in force otherwise than asked; unknown ones are no mismatch."""
    return [
        Mismatch(knob, value, effective[knob])
        for knob, value in requested.items()
        if knob in effective and effective[knob] != value
    ]


def _unread(command: LaunchCommand) -> Settings:
    return {}


@dataclass(frozen=True, slots=True)
class Judges:
    """What the caller decides: each is asked, none of them acts.

    `problems` says why settings can never start here, `plan` gives their memory plan, `allowed` why no restart is
    made now (window, budget), `classify` names the log signature of a line, `mismatches` compares settings, `golden`
    says whether settings may change answers, and `watch` why a fresh start is not good for its users (None: it is),
    asked again and again for the first seconds. `settings` reads the cold settings that a command spells out.
    """

    problems: Callable[[Settings, LaunchCommand], Awaitable[list[str]]] = _nothing
    plan: Callable[[LaunchCommand], Awaitable[MemoryPlan | None]] = _no_plan
    allowed: Callable[[RestartOrder, float], str | None] = _always
    classify: Callable[[str], str | None] = _unnamed
    mismatches: Callable[[Settings, Settings], list[Mismatch]] = different
    golden: Callable[[Settings], bool] = _never
    watch: Callable[[], Awaitable[str | None]] | None = None
    settings: Callable[[LaunchCommand], Settings] = _unread


def _unheard(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Parts:
    """One engine's restarts: ports, judges, patience, and who hears of them.

    `lock` gives the lock of a boot of the engine. `say` hears each line of progress, `alert` what a person must know
    now.
    """

    server: EngineServer
    control: EngineControl
    ground: Ground
    probe: Probe
    clock: Clock
    journal: Journal
    settings: RestartSettings = field(default_factory=RestartSettings)
    judges: Judges = field(default_factory=Judges)
    lock: Callable[[str], EngineLock] | None = None
    say: Callable[[str], None] = _unheard
    alert: Callable[[str], None] = _unheard
