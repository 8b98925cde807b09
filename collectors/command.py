"""Runs a program to its end: bounded in time and in output, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.sample import CollectorError

MAX_BYTES = 4 * 1024 * 1024
PIPE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What the program printed (its errors only if it printed nothing else) and its exit code."""

    text: str
    code: int


async def run_command(
    command: Sequence[str], *, timeout_seconds: float, max_bytes: int = MAX_BYTES
) -> CommandOutput:
    """Run an argument list, in the plain locale, and wait for its end.

    A child that answers late or prints more than `max_bytes` is killed with all that it started. Raises
    CollectorError if it cannot be run, is late or prints too much; an exit code is the caller's to judge.
    """
    child = await start_child(command)
    try:
        async with asyncio.timeout(timeout_seconds):
            output, said = await asyncio.gather(
                _read_all(child, child.stdout, max_bytes), _read_all(child, child.stderr, max_bytes)
            )
            # Before its end is waited for: asyncio tells of that only once the pipes are read out.
            if output is None or said is None:
                raise CollectorError(f"{command[0]}: printed more than {max_bytes} bytes")
            code = await child.wait()
    except TimeoutError:
        raise CollectorError(f"{command[0]}: no answer within {timeout_seconds:g} s") from None
    finally:
        await end_child(child)
    # Programs cut names by bytes, so half a character is possible in sound output.
    return CommandOutput((output if output.strip() else said).decode(errors="backslashreplace"), code)


class Child(asyncio.subprocess.Process):
    """A process with the transport that holds its pipes."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        protocol: asyncio.subprocess.SubprocessStreamProtocol,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(transport, protocol, loop)
        self.transport = transport


async def start_child(command: Sequence[str]) -> Child:
    """Start an argument list with pipes for its output; the caller ends it with `end_child`."""
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=PIPE_BYTES, loop=loop),
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,  # not into the output, where it would land within a row
            env={**os.environ, "LANG": "C", "LC_ALL": "C"},
            start_new_session=True,  # a group of its own, so that its children end with it
        )
    except FileNotFoundError as failure:
        raise CollectorError(f"{command[0]}: not found; is it in PATH?") from failure
    except OSError as failure:
        raise CollectorError(f"{command[0]}: cannot be run: {failure.strerror}") from failure
    return Child(transport, protocol, loop)


async def end_child(child: Child) -> None:
    """Kill what still runs of it and of what it started, and reap it.

    A child stuck in the driver is left to the kernel after a second, its pipes are closed all the same.
    """
    _kill(child)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                for stream in (child.stdout, child.stderr):
                    while stream is not None and await stream.read(65536):
                        pass
                await child.wait()
    finally:
        child.transport.close()


async def _read_all(child: Child, stream: asyncio.StreamReader | None, max_bytes: int) -> bytes | None:
    """All the child prints there; None (and the child killed) if it is too much."""
    assert stream is not None
    output = bytearray()
    while chunk := await stream.read(65536):
        output += chunk
        if len(output) > max_bytes:
            _kill(child)
            return None
    return bytes(output)


def _kill(child: Child) -> None:
    # Its number is not given away while it is not reaped, nor after that while any of its group lives. A process that
    # bears it once it is reaped therefore tells that the group is gone and that the number is another's.
    if child.returncode is not None and Path(f"/proc/{child.pid}").exists():
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
