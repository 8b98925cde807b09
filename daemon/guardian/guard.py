"""The guardian of one engine: starts and ends it by order, and puts the kept command back if the orderer is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from change.restart.command import same
from change.server import LaunchCommand, ProcessMark, ServerState
from daemon.guardian.attendance import Attendance

RETURN_GRACE_SECONDS = 60.0
"""Grace of an unproven engine that the guardian itself ends."""
LEFTOVERS_SECONDS = 30.0
"""How long the workers of an engine that ended by itself are waited for once they are killed."""
RESCUE_SECONDS = 120.0
"""How long an engine that ended by itself is left to a daemon that said it would start it again."""

ENDING_SECONDS = 120.0
"""How long an engine may take to end once `serve` was asked to; one that loads or hangs may not hear the signal."""
INSIST_SECONDS = 2.0
"""A second signal so long after the first is a person's: supervisors send several at once."""


class Phase(Enum):
    """Where the engine stands."""

    PROVEN = auto()
    """The kept command runs: when it ends by itself, so does the guardian."""
    UNPROVEN = auto()
    """A start by order that nobody has kept yet, running or ended: the guardian stays."""
    STOPPING = auto()
    STOPPED = auto()


class Run(Protocol):
    """One run of the engine, as `EngineRun` is."""

    @property
    def command(self) -> LaunchCommand: ...

    @property
    def pid(self) -> int: ...

    @property
    def mark(self) -> ProcessMark: ...

    @property
    def identity(self) -> str: ...

    @property
    def code(self) -> int | None: ...

    def look(self, now: float) -> None: ...

    def state(self, now: float) -> ServerState: ...

    def send(self, number: signal.Signals) -> bool: ...

    def ask_to_end(self, now: float, grace_seconds: float) -> None: ...

    def drive_end(self, now: float) -> bool: ...

    def bury(self) -> int: ...


class Refused(Exception):
    """What was ordered cannot be done now; the text says why."""


class Guard:
    """Owns at most one engine.

    `begin` starts a command with the environment of `trimtab serve` and raises `OSError`; `kept` is the command to
    come back to. `now` is in seconds of one clock that only goes forward.
    """

    def __init__(
        self,
        kept: LaunchCommand,
        begin: Callable[[LaunchCommand], Run],
        attendance: Attendance,
        say: Callable[[str], None],
    ) -> None:
        self._kept = kept
        self._begin = begin
        self._attendance = attendance
        self._say = say
        self._run = begin(kept)
        self.phase = Phase.PROVEN
        self._returning = False
        self._ending = False
        self._now = float("-inf")
        self._ending_since: float | None = None
        self._insisted = self._killed = False
        self._ended: float | None = None
        self._stays_until = self._rescue_until = float("-inf")

    @property
    def pid(self) -> int | None:
        """The number of the engine's main process, None if none is owned."""
        return None if self.phase is Phase.STOPPED else self._run.pid

    @property
    def mark(self) -> ProcessMark | None:
        """The same with its start."""
        return None if self.phase is Phase.STOPPED else self._run.mark

    def signal(self, number: signal.Signals, *, ending: bool) -> None:
        """Hand a signal on; with `ending` nothing is started any more, and a second one kills what does not end."""
        since = self._ending_since
        if ending and since is not None and self._now - since >= INSIST_SECONDS:
            self._insisted = True
        self._ending = self._ending or ending
        if self.phase is not Phase.STOPPED:
            self._run.send(number)

    def watch(self, now: float) -> None:
        """Remember the engine's workers, so that they are known as ours after their parents' end."""
        if self.runs:
            self._run.look(now)

    def tick(self, now: float) -> int | None:
        """Do what is due; returns the exit code with which all ends, or None."""
        self._now = now
        if self._ending:
            self._hurry(now)
        if self.phase is Phase.PROVEN:
            return None if self._run.code is None or self._awaits_rescue(now) else self._end_with_workers(now)
        if self.phase is Phase.STOPPING:
            return self._stopping(now)
        if self._ending:
            return self._end_unproven(now)
        running = self.phase is Phase.UNPROVEN and self._run.code is None
        if self._attendance.lost(now, running=running):
            return self._come_back(now, running)
        return None

    def _hurry(self, now: float) -> None:
        """Kill an engine that does not end: it and all it began."""
        first = self._ending_since is None
        self._ending_since = now if self._ending_since is None else self._ending_since
        if first or not self.runs:
            return
        if self._insisted or now - self._ending_since >= ENDING_SECONDS:
            if not self._killed:
                self._say("the engine has not ended when asked to: it is killed with all it began")
                self._killed = True
            self._run.ask_to_end(now, 0.0)
            self._run.drive_end(now)

    def _awaits_rescue(self, now: float) -> bool:
        """Whether an engine that ended by itself is left to the daemon; workers that hold its cards are ended."""
        if self._ending:
            return False
        if now < self._stays_until and self._ended is None:
            self._ended, self._rescue_until = now, now + RESCUE_SECONDS
            self._run.ask_to_end(now, 0.0)
            self._say(
                f"the engine ended by itself with code {self._run.code}; the daemon has {RESCUE_SECONDS:g} s to start "
                "it again"
            )
        if now >= self._rescue_until:
            return False
        self._run.drive_end(now)
        return True

    def _stopping(self, now: float) -> int | None:
        if not self._run.drive_end(now):
            return None
        code = self._run.bury()
        self.phase = Phase.STOPPED
        if self._ending:
            return code
        return self._start_kept() if self._returning else None

    def _end_unproven(self, now: float) -> int | None:
        if self.phase is Phase.STOPPED:
            return 0  # asked to end with no engine there: nothing failed
        return None if self._run.code is None else self._end_with_workers(now)

    def _end_with_workers(self, now: float) -> int | None:
        # Its workers must not outlive it: what follows us may start another engine on the same cards.
        self._run.ask_to_end(now, 0.0)
        self._ended = now if self._ended is None else self._ended
        if not self._run.drive_end(now):
            if now - self._ended < LEFTOVERS_SECONDS:
                return None
            left = ", ".join(str(mark.pid) for mark in self._run.state(now).processes)
            self._say(f"the engine ended, but its processes {left} cannot be killed: a driver may hold them")
        return self._run.bury()

    def _come_back(self, now: float, running: bool) -> int | None:
        if same(self._run.command, self._kept) and self.phase is Phase.UNPROVEN:
            if running:
                self._say("nobody finished the change; the engine runs with the kept command, so all is well")
                self.phase = Phase.PROVEN
                return None
            self._say("the kept command ended too, and nobody looks after it: the guardian ends")
            self._ending = True
            return None
        self._say("nobody finished the change of the engine: the kept command is put back")
        if self.phase is Phase.STOPPED:
            return self._start_kept()
        self._returning = True
        self._begin_stop(now, RETURN_GRACE_SECONDS)
        return None

    def _start_kept(self) -> int | None:
        self._returning = False
        try:
            self._run = self._fresh(self._kept)
        except OSError as error:
            self._say(f"{self._kept.argv[0]}: the kept command cannot be started: {error.strerror}")
            return 1
        self.phase = Phase.PROVEN
        return None

    def _fresh(self, command: LaunchCommand) -> Run:
        run = self._begin(command)
        self._ended, self._rescue_until = None, float("-inf")
        return run

    def _begin_stop(self, now: float, grace_seconds: float) -> None:
        self.phase = Phase.STOPPING
        self._run.ask_to_end(now, grace_seconds)

    @property
    def runs(self) -> bool:
        """Whether the main process runs."""
        return self.phase is not Phase.STOPPED and self._run.code is None

    @property
    def unfinished(self) -> bool:
        """Whether a change is under way that needs a daemon."""
        return self.phase is not Phase.PROVEN

    @property
    def command(self) -> LaunchCommand:
        """How the engine that runs now, or ran last, was started."""
        return self._run.command

    def state(self, now: float) -> ServerState:
        """What runs."""
        if self.phase is Phase.STOPPED:
            return ServerState(False, self._run.identity, self._run.code)
        return self._run.state(now)

    def stay(self, seconds: float, now: float) -> None:
        """Leave an engine that ends by itself within so many seconds to the daemon, for a while.

        0 ends that, also for one that has ended.
        """
        self._stays_until = now + seconds
        if seconds <= 0.0:
            self._rescue_until = float("-inf")

    def stop(self, grace_seconds: float, now: float) -> bool:
        """Have the engine end, or go on with it; tells whether nothing of it is left."""
        self._returning = False
        if self.phase is not Phase.STOPPED:
            self._begin_stop(now, grace_seconds)
        return self.phase is Phase.STOPPED

    def start(self, command: LaunchCommand, now: float) -> None:
        """Begin a start; raises `Refused`."""
        if self._ending:
            raise Refused("trimtab serve is ending: nothing is started any more")
        if self.phase is Phase.STOPPING:
            raise Refused("the engine is being stopped: wait until it is gone")
        if self.phase is not Phase.STOPPED:
            left = ", ".join(str(mark.pid) for mark in self._run.state(now).processes)
            if left:
                raise Refused(f"an engine runs already (process {left}): stop it first")
            self._run.bury()
            self.phase = Phase.STOPPED
        try:
            self._run = self._fresh(command)
        except (OSError, ValueError) as error:
            raise Refused(f"{command.argv[0]}: cannot be started: {error}") from error
        self.phase = Phase.UNPROVEN

    def keep(self, command: LaunchCommand) -> None:
        """Come back to `command` from now on; the run of it that is there now is proven."""
        self._kept = command
        if self.phase is Phase.UNPROVEN and same(self._run.command, command) and self._run.code is None:
            self.phase = Phase.PROVEN
