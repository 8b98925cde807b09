"""Requests to the guardian, carried out."""

from __future__ import annotations

from change.server import LaunchCommand
from daemon.guardian.attendance import Attendance
from daemon.guardian.guard import Guard, Phase, Refused
from daemon.guardian.launch_file import LaunchFile
from daemon.guardian.output import EngineOutput
from daemon.guardian.wire import (
    Answer,
    AskCommand,
    Attend,
    Command,
    Keep,
    Lines,
    Log,
    Look,
    Peer,
    Request,
    Start,
    State,
    Stay,
    Stop,
)


class Orders:
    """Answers requests; `now` is in seconds of the guard's clock."""

    def __init__(
        self, guard: Guard, launch_file: LaunchFile, output: EngineOutput, attendance: Attendance
    ) -> None:
        self._guard = guard
        self._file = launch_file
        self._output = output
        self._attendance = attendance

    def answer(self, request: Request, peer: Peer, now: float) -> Answer:
        """Carry out a request of `peer`."""
        if isinstance(request, Look | AskCommand | Stay):
            self._attendance.heard(peer, now)
        else:
            self._attendance.ordered(peer, now)
        try:
            return self._carry_out(request, now)
        except Refused as refused:
            return Answer(error=str(refused))

    def _carry_out(self, request: Request, now: float) -> Answer:
        match request:
            case Look():
                return Answer(state=self._state(now))
            case AskCommand():
                return Answer(command=Command.of(self._guard.command))
            case Attend():
                return Answer()
            case Stay():
                self._guard.stay(request.seconds, now)
                return Answer()
            case Log():
                ended = self._guard.phase is Phase.STOPPED or not self._guard.runs
                part = self._output.read(request.position, ended=ended)
                return Answer(log=Lines(lines=list(part.lines), position=part.position))
            case Stop():
                gone = self._guard.stop(request.grace_seconds, now)
                return Answer(gone=gone, state=self._state(now))
            case Start():
                self._guard.start(request.command.launch(), now)
                return Answer(state=self._state(now))
            case Keep():
                self._keep(request.command.launch())
                return Answer()

    def _state(self, now: float) -> State:
        return State.of(self._guard.state(now))

    def _keep(self, command: LaunchCommand) -> None:
        try:
            self._file.keep(command)
        except OSError as error:
            raise Refused(f"{error.filename}: the command cannot be kept: {error.strerror}") from error
        self._guard.keep(command)
