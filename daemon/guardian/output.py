"""What the engine writes: a file of its own, copied to our stdout and kept short.

The engine writes to a regular file, not to a pipe of ours, so that it goes on if this process dies.
"""

from __future__ import annotations

import os
import secrets
import select
from pathlib import Path
from typing import IO

from change.server import LogPart

FULL_BYTES = 64 * 1024 * 1024
"""A file of this size is emptied once it is copied; twice as much, and it is emptied though it is not."""
PART_BYTES = 256 * 1024
CHUNK_BYTES = 4096
"""What a pipe that is ready takes without blocking (PIPE_BUF)."""
CHUNKS_AT_ONCE = 256


class EngineOutput:
    """The file of the present run at `path`; the run before it is at `path` with `.1`.

    `copy_to` is the descriptor that gets a copy. Raises `OSError` if the file cannot be made.
    """

    def __init__(self, path: Path, copy_to: int | None, full_bytes: int = FULL_BYTES) -> None:
        self._path = path
        self._copy_to = copy_to
        self._full = full_bytes
        self._run = secrets.token_hex(4)
        self._dropped = 0
        self._copied = 0
        self._file: IO[bytes] | None = None

    def begin(self) -> IO[bytes]:
        """Begin the file of a new run; returns what the engine is to write to."""
        self.close()
        if self._path.exists():
            self._path.replace(self._path.with_name(self._path.name + ".1"))
        descriptor = os.open(
            self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW, 0o600
        )
        self._file = open(descriptor, "a+b", buffering=0)  # noqa: SIM115, PTH123 - closed with the next run
        self._run = secrets.token_hex(4)
        self._dropped = self._copied = 0
        return self._file

    def copy(self, *, to_end: bool = False) -> None:
        """Hand on what is new as far as the reader of our stdout takes it; with `to_end`, wait for it a little."""
        if self._file is None:
            return
        number = self._file.fileno()
        for _ in range(CHUNKS_AT_ONCE * (64 if to_end else 1)):
            if self._copy_to is None:
                self._copied = self._size()
                break
            chunk = os.pread(number, CHUNK_BYTES, self._copied)
            if not chunk or not self._hand_on(chunk, 1.0 if to_end else 0.0):
                break
        size = self._size()
        if size > self._full and (self._copied >= size or size > 2 * self._full):
            os.ftruncate(number, 0)
            self._dropped += size
            self._copied = 0

    def close(self) -> None:
        """Copy the rest and let go of the file, which stays."""
        if self._file is not None:
            try:
                self.copy(to_end=True)
            finally:
                self._file.close()
                self._file = None

    def _hand_on(self, chunk: bytes, seconds: float) -> bool:
        assert self._copy_to is not None
        try:
            if not select.select([], [self._copy_to], [], seconds)[1]:
                return False
            self._copied += os.write(self._copy_to, chunk)
        except (OSError, ValueError):
            # Nobody reads our stdout any more: that is no reason to stop the engine.
            self._copy_to = None
        return True

    def _size(self) -> int:
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def read(self, position: str | None, *, ended: bool) -> LogPart:
        """The whole lines since `position` (`run:byte`; another run's counts as none); of an ended run also the last
        one without its end."""
        begin = self._offset(position)
        if self._file is None:
            return LogPart((), f"{self._run}:{begin}")
        # What was emptied away is lost to a reader that comes too late.
        begin = max(begin, self._dropped)
        data = os.pread(self._file.fileno(), PART_BYTES, begin - self._dropped)
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == PART_BYTES:
            end = len(data)  # a line without an end is handed out in pieces
        elif ended and len(data) < PART_BYTES:
            end = len(data)
        text = data[:end].decode(errors="replace")
        return LogPart(tuple(text.splitlines()), f"{self._run}:{begin + end}")

    def _offset(self, position: str | None) -> int:
        run, _, byte = (position or "").partition(":")
        if run != self._run or not byte.isdecimal():
            return 0
        return min(int(byte), self._dropped + self._size())
