"""One `npu-smi info watch` child: its rows as they come, bounded in memory, and why it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from collectors.command import Child, end_child, start_child
from collectors.npu_smi.watch import WatchReader, WatchRow

MAX_LINE_BYTES = 4096
MAX_SAID_BYTES = 4096


class WatchStream:
    """Keeps the last row of each chip with the time it came; `clock` gives Unix seconds."""

    def __init__(self, command: Sequence[str], clock: Callable[[], float]) -> None:
        self._command = tuple(command)
        self._clock = clock
        self._reader = WatchReader()
        self._said = bytearray()
        self._lines = 0
        self._long_lines = False
        self._child: Child | None = None
        self._task: asyncio.Task[None] | None = None
        self.rows: dict[tuple[str, str | None], tuple[WatchRow, float]] = {}
        self.moved = asyncio.Event()
        """Set by the first row, and by the end."""

    async def start(self) -> None:
        """Start the child; raises CollectorError if it cannot be run."""
        self._child = await start_child(self._command)
        self._task = asyncio.create_task(self._follow(self._child), name="npu-smi watch")

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to come."""
        return self._task is None or self._task.done()

    @property
    def code(self) -> int | None:
        """The child's exit code once it ended."""
        return self._child.returncode if self._child is not None else None

    @property
    def said(self) -> str:
        """What it printed on stdout before its header and on stderr: the start of it."""
        return self._said.decode(errors="backslashreplace")

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, each kind once."""
        long = (f"a line over {MAX_LINE_BYTES} bytes",) if self._long_lines else ()
        return (*self._reader.notes, *long)

    async def stop(self) -> None:
        """Kill the child with all that it started."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, child: Child) -> None:
        try:
            await asyncio.gather(self._rows(child.stdout), self._errors(child.stderr))
            await child.wait()
        finally:
            await end_child(child)
            self.moved.set()

    async def _rows(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        pending, skipping = b"", False
        while chunk := await stream.read(65536):
            *whole, pending = (pending + chunk).split(b"\n")
            for line in whole:
                if len(line) > MAX_LINE_BYTES:
                    self._long_lines = True
                elif not skipping:
                    self._line(line)
                skipping = False
            if len(pending) > MAX_LINE_BYTES:
                # What is left of it up to its end is no line either.
                self._long_lines, skipping, pending = True, True, b""

    def _line(self, line: bytes) -> None:
        self._lines += 1
        text = line.decode(errors="backslashreplace")
        started = self._reader.started
        row = self._reader.line(self._lines, text)
        if row is not None:
            self.rows[row.npu, row.chip] = (row, self._clock())
            self.moved.set()
        elif not (started or self._reader.started):
            self._said += (line + b"\n")[: MAX_SAID_BYTES - len(self._said)]

    async def _errors(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while chunk := await stream.read(65536):
            self._said += chunk[: MAX_SAID_BYTES - len(self._said)]
