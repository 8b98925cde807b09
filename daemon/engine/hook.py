"""The hand `hook`: the operator's own programs; docs/restarts.md has what they are given and must answer."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from change.server import LaunchCommand, LogPart, ServerBusy, ServerError, ServerState
from daemon.engine.program import Said, run_program
from daemon.guardian.wire import Command, Lines, Strict, reasons
from daemon.process_mark import process_mark
from daemon.sections.server import HookSection

BUSY = 75
"""EX_TEMPFAIL of sysexits.h: somebody else starts or stops the engine just now."""


class Given(Strict):
    """What a program finds on its stdin, one JSON line."""

    version: Literal[1] = 1
    action: Literal["look", "start", "stop", "keep", "log"]
    command: Command | None = None
    grace_seconds: float | None = None
    position: str | None = None


class Looked(BaseModel):
    """What `look` prints; further keys are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    running: bool
    identity: str | None = Field(default=None, max_length=500)
    exit_code: int | None = None
    command: Command | None = None
    pids: list[int] = []


Printed = TypeVar("Printed", bound=BaseModel)


class HookServer:
    """Runs the programs of the section. Every call raises `ServerError`."""

    way = "hook"
    keeps_original = False

    def __init__(self, section: HookSection) -> None:
        self._section = section

    async def command(self) -> LaunchCommand:
        """Return the command that `look` tells."""
        looked = await self._look()
        if looked.command is None:
            raise ServerError(f'{self._section.look[0]}: does not tell the command: print it as "command"')
        return looked.command.launch()

    async def look(self) -> ServerState:
        """Say what runs."""
        return _state(await self._look())

    async def objections(self) -> list[str]:
        """Nothing that is known beforehand."""
        return []

    async def attend(self) -> None:
        """Do nothing: nobody else puts the engine back here."""

    async def stop(self, *, grace_seconds: float) -> None:
        """Run the program, which returns once the engine is gone."""
        if not (await self._look()).running:
            return
        await self._run(
            self._section.stop,
            Given(action="stop", grace_seconds=grace_seconds),
            seconds=self._section.timeout_seconds + grace_seconds,
        )
        left = await self._look()
        if left.running:
            raise ServerError(f"{self._section.stop[0]}: says that it is done, but the engine still runs")

    async def start(self, command: LaunchCommand) -> ServerState:
        """Run the program, which returns once the start is begun."""
        if (await self._look()).running:
            raise ServerError("an engine runs already: stop it first")
        await self._run(self._section.start, Given(action="start", command=_command(command)))
        return await self.look()

    async def log(self, position: str | None) -> LogPart:
        """Read what the program prints; nothing where there is none."""
        if not self._section.log:
            return LogPart((), position or "")
        said = await self._run(self._section.log, Given(action="log", position=position))
        lines = _printed(self._section.log[0], said, Lines)
        return LogPart(tuple(lines.lines), lines.position)

    async def keep(self, command: LaunchCommand) -> None:
        """Run the program where there is one."""
        if self._section.keep:
            await self._run(self._section.keep, Given(action="keep", command=_command(command)))

    async def _look(self) -> Looked:
        said = await self._run(self._section.look, Given(action="look"))
        return _printed(self._section.look[0], said, Looked)

    async def _run(self, argv: list[str], given: Given, *, seconds: float | None = None) -> Said:
        line = given.model_dump_json(exclude_none=True).encode() + b"\n"
        said = await run_program(argv, timeout_seconds=seconds or self._section.timeout_seconds, given=line)
        if said.code == BUSY:
            raise ServerBusy(f"{argv[0]} ({given.action}): {said.reason}")
        if said.code != 0:
            raise ServerError(f"{argv[0]} ({given.action}): {said.reason}")
        return said


def _printed(program: str, said: Said, kind: type[Printed]) -> Printed:
    try:
        return kind.model_validate_json(said.output)
    except ValidationError as error:
        raise ServerError(f"{program}: what it prints is not understood: {reasons(error)}") from error


def _state(looked: Looked) -> ServerState:
    marks = [mark for pid in looked.pids if pid > 0 and (mark := process_mark(pid)) is not None]
    code = None if looked.running else looked.exit_code
    return ServerState(looked.running, looked.identity, code, tuple(marks))


def _command(command: LaunchCommand) -> Command:
    try:
        return Command.of(command)
    except ValidationError as error:
        raise ServerError(f"the command cannot be started: {reasons(error)}") from error
