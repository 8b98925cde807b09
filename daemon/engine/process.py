"""The hand `process`: orders to `trimtab serve`, which is the engine's parent."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from pathlib import Path

from pydantic import ValidationError

from change.server import LaunchCommand, LogPart, ServerError, ServerState
from daemon.guardian.wire import (
    ANSWER_BYTES,
    REQUEST_BYTES,
    Answer,
    AskCommand,
    Attend,
    Command,
    Keep,
    Log,
    Look,
    Request,
    Start,
    State,
    Stay,
    Stop,
    read_answer,
    reasons,
    socket_path,
    written,
)

ANSWER_SECONDS = 10.0
PAUSE_SECONDS = 0.2
AFTER_GRACE_SECONDS = 30.0
"""How long killed processes may take to go; a driver can hold one for longer, and then that is said."""


class ProcessServer:
    """Speaks with the guardian that listens in `run_dir`. Every call raises `ServerError` if none does."""

    way = "process"
    keeps_original = False

    def __init__(self, run_dir: Path) -> None:
        self._path = socket_path(run_dir)

    async def command(self) -> LaunchCommand:
        """Return how the engine that runs now, or ran last, was started."""
        answer = await self._ask(AskCommand())
        if answer.command is None:
            raise self._odd()
        return answer.command.launch()

    async def look(self) -> ServerState:
        """Say what runs."""
        return self._state(await self._ask(Look()))

    async def objections(self) -> list[str]:
        """Nothing: a guardian that answers at all is the engine's parent, and its orders need no other right."""
        await self.look()
        return []

    async def attend(self) -> None:
        """Have the guardian wait for what this daemon will order."""
        await self._ask(Attend())

    async def stay(self, seconds: float) -> None:
        """Have the guardian leave an engine that ends by itself to this daemon, for a while; asked again and again."""
        await self._ask(Stay(seconds=seconds))

    async def stop(self, *, grace_seconds: float) -> None:
        """Have the engine and all it began end; returns once they are gone."""
        patience = grace_seconds + AFTER_GRACE_SECONDS
        left: State | None = None
        try:
            async with asyncio.timeout(patience):
                while True:
                    answer = await self._ask(Stop(grace_seconds=grace_seconds))
                    if answer.gone:
                        return
                    left = answer.state
                    await asyncio.sleep(PAUSE_SECONDS)
        except TimeoutError as error:
            pids = ", ".join(str(mark.pid) for mark in left.processes) if left is not None else "unknown"
            raise ServerError(
                f"the engine was killed but does not go within {patience:g} s (processes {pids}): "
                "a driver may hold them; see the kernel's log, the host may need a restart"
            ) from error

    async def start(self, command: LaunchCommand) -> ServerState:
        """Begin a start."""
        return self._state(await self._ask(Start(command=_command(command))))

    async def log(self, position: str | None) -> LogPart:
        """Read what the present run has written, stdout and stderr in their order."""
        answer = await self._ask(Log(position=position))
        if answer.log is None:
            raise self._odd()
        return LogPart(tuple(answer.log.lines), answer.log.position)

    async def keep(self, command: LaunchCommand) -> None:
        """Have the guardian come back to `command`, also after its own restart."""
        await self._ask(Keep(command=_command(command)))

    async def _ask(self, request: Request) -> Answer:
        line = written(request)
        if len(line) > REQUEST_BYTES:
            raise ServerError(f"the command is longer than {REQUEST_BYTES} bytes: shorten it")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = read_answer(await self._exchange(line))
        except (TimeoutError, OSError) as error:
            raise ServerError(
                f"{self._path}: no guardian answers there ({type(error).__name__}): start the engine as "
                "`trimtab serve -- COMMAND`, with engine.server.hand: process in the same configuration"
            ) from error
        except ValueError as error:
            raise self._odd() from error
        if answer.error is not None:
            raise ServerError(answer.error)
        return answer

    async def _exchange(self, line: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self._path), limit=ANSWER_BYTES)
        try:
            peer = writer.get_extra_info("socket")
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            if struct.unpack("3i", credentials)[1] not in (os.geteuid(), 0):
                raise PermissionError(f"{self._path} belongs to another user")
            writer.write(line)
            await writer.drain()
            return await reader.readline()
        finally:
            writer.close()

    def _state(self, answer: Answer) -> ServerState:
        if answer.state is None:
            raise self._odd()
        return answer.state.server_state()

    def _odd(self) -> ServerError:
        return ServerError(
            f"{self._path}: the guardian's answer is not understood: is `trimtab serve` of another version? "
            "Restart it with this one"
        )


def _command(command: LaunchCommand) -> Command:
    try:
        return Command.of(command)
    except ValidationError as error:
        raise ServerError(f"the command cannot be started: {reasons(error)}") from error
