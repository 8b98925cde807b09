"""Engines that exist in virtual time only, for the guardian's decisions."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from change.server import LaunchCommand, ProcessMark, ServerState
from daemon.guardian.attendance import Attendance
from daemon.guardian.guard import Guard
from daemon.guardian.wire import Peer

KEPT = LaunchCommand(("vllm", "serve", "--block-size", "128"))
OTHER = LaunchCommand(("vllm", "serve", "--block-size", "256"))
DAEMON = Peer(41, ProcessMark(41, 1.0))
NEXT_DAEMON = Peer(42, ProcessMark(42, 2.0))


@dataclass
class VirtualRun:
    """Ends two seconds after it was asked to, or when it is killed."""

    command: LaunchCommand
    pid: int
    code: int | None = None
    asked: float | None = None
    deadline: float | None = None
    signals: list[int] = field(default_factory=list)
    workers: str = "gone"
    """`stubborn` ones end when they are killed, `stuck` ones never."""

    @property
    def mark(self) -> ProcessMark:
        return ProcessMark(self.pid, 0.0)

    @property
    def identity(self) -> str:
        return f"{self.pid}@0"

    def look(self, now: float) -> None:
        pass

    def state(self, now: float) -> ServerState:
        running = self.code is None
        return ServerState(
            running, self.identity, self.code, (ProcessMark(self.pid, 0.0),) if running else ()
        )

    def send(self, number: signal.Signals) -> bool:
        self.signals.append(number)
        return self.code is None

    def ask_to_end(self, now: float, grace_seconds: float) -> None:
        self.asked = now if self.asked is None else self.asked
        self.deadline = now + grace_seconds

    def drive_end(self, now: float) -> bool:
        assert self.asked is not None and self.deadline is not None
        if self.code is None and now >= min(self.asked + 2, self.deadline):
            self.code = 0
        if self.workers == "stubborn" and now >= self.deadline:
            self.workers = "gone"
        return self.code is not None and self.workers == "gone"

    def bury(self) -> int:
        assert self.code is not None, "nobody is buried alive"
        return self.code


class World:
    """A guard with virtual engines and peers; `now` goes on by `pass_time`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.runs: list[VirtualRun] = []
        self.alive = {DAEMON, NEXT_DAEMON}
        self.said: list[str] = []
        self.attendance = Attendance(lambda peer: peer in self.alive)
        self.guard = Guard(KEPT, self._begin, self.attendance, self.said.append)
        self.code: int | None = None

    def _begin(self, command: LaunchCommand) -> VirtualRun:
        assert not self.living, "a second engine was started"
        self.runs.append(VirtualRun(command, 100 + len(self.runs)))
        return self.runs[-1]

    @property
    def living(self) -> list[VirtualRun]:
        return [run for run in self.runs if run.code is None]

    def stop(self, who: Peer = DAEMON) -> bool:
        self.attendance.ordered(who, self.now)
        return self.guard.stop(60.0, self.now)

    def start(self, command: LaunchCommand = OTHER, who: Peer = DAEMON) -> None:
        self.attendance.ordered(who, self.now)
        self.guard.start(command, self.now)

    def keep(self, command: LaunchCommand, who: Peer = DAEMON) -> None:
        self.attendance.ordered(who, self.now)
        self.guard.keep(command)

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        until = self.now + seconds
        while self.now < until and self.code is None:
            self.now += step
            self.code = self.guard.tick(self.now)

    def changed(self, who: Peer = DAEMON) -> None:
        """Stop, and start OTHER."""
        self.stop(who)
        self.pass_time(5)
        self.start(OTHER, who)
