"""The port to an engine's cold lane: what starts and stops the one engine that the configuration names.

Hands: `daemon.engine.process`, `systemd`, `docker`, `kubernetes`, `hook`; `sim.server_hand` in the simulator.
One contract suite runs against each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

Setting = int | float | str | bool
Settings = Mapping[str, Setting]
"""Cold knob name to value, in the knob's unit; a JSON knob holds its text."""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """How an engine is started: its whole argument list, and the environment variables that go over its own.

    A hand keeps the environment it found; `environ` holds what Trimtab adds or replaces there, and never a secret.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process of this host, told from a reused number by its start.

    `started` is in seconds since the host's boot, `boot` is the kernel's id of that boot: neither moves when the
    clock is set.
    """

    pid: int
    started: float
    boot: str = ""


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a hand says of the engine now.

    `identity` names this run of it (pid and start time, invocation, container, revision) and is None when none was
    ever started; `exit_code` is that of a run that ended, None if it runs or nobody knows. `processes` are the
    owned ones on this host, the main one first; empty where the engine runs elsewhere.

    `reason` is why it does not run, or not yet, in the words of whoever starts it (`OOMKilled`, `Unschedulable`,
    `ProgressDeadlineExceeded`), None where nobody says. `starting` is true while a start that is not running yet may
    still come up by itself: a rollout over several replicas. Not running and not starting is an end.
    """

    running: bool
    identity: str | None
    exit_code: int | None = None
    processes: tuple[ProcessMark, ...] = ()
    reason: str | None = None
    starting: bool = False


@dataclass(frozen=True, slots=True)
class LogPart:
    """Lines the engine of one run has written since a position; `position` is what to ask with next."""

    lines: tuple[str, ...]
    position: str


class ServerError(Exception):
    """The hand could not do what was asked; the text says what, where and what to do."""


class ServerBusy(ServerError):
    """Somebody else starts or stops this engine at the moment (a rollout, an operator, another daemon)."""


class EngineServer(Protocol):
    """Starts and stops one engine. Every call may be repeated after a crash of its caller: all are idempotent."""

    @property
    def way(self) -> str:
        """The hand's name in the configuration, such as `process`."""
        ...

    @property
    def keeps_original(self) -> bool:
        """Whether each start makes the engine anew while the one before is kept itself.

        If it does, `keep` of the last known good while no engine runs brings the kept one back, and a start of the
        same command starts it as it was.
        """
        ...

    async def command(self) -> LaunchCommand:
        """Return how the engine that runs now, or ran last, was started."""
        ...

    async def look(self) -> ServerState:
        """Say what runs; at most one engine ever does."""
        ...

    async def objections(self) -> list[str]:
        """Say in words why this hand could not carry out a stop and a start now, before any is tried.

        Nothing is changed that lasts. Empty where nothing is known to be in the way. Raises `ServerError`.
        """
        ...

    async def attend(self) -> None:
        """Tell whoever puts the engine back by itself that somebody looks after an unfinished change.

        Does nothing where nobody would. Raises `ServerError`.
        """
        ...

    async def stop(self, *, grace_seconds: float) -> None:
        """Ask the engine to end, wait `grace_seconds`, then kill what is left of it; return once it is gone.

        Only processes (a unit, a container, pods) that the hand owns are touched. Does nothing if none runs.
        """
        ...

    async def start(self, command: LaunchCommand) -> ServerState:
        """Begin one start with `command` and return at once: whether it comes up is followed elsewhere.

        Raises `ServerError` if one runs already, or if the start could not even be begun.
        """
        ...

    async def log(self, position: str | None) -> LogPart:
        """Read what the present run has written since `position` (None: since its start)."""
        ...

    async def keep(self, command: LaunchCommand) -> None:
        """Make `command` what the next start by anybody uses, and let go of older ones kept for the way back."""
        ...
