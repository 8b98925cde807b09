"""The locks of one engine and of its node: a trial, a playbook and a manual apply never change either at once.

A file lock, so that the kernel lets go of it when its holder dies, whatever the death.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_HOLDER_BYTES = 500


class LockError(Exception):
    """The lock could not be taken; the text says why and what to do."""


class LockHeld(LockError):
    """Somebody else holds the lock: `holder` says who, since when and for what."""

    def __init__(self, holder: str, what: str = "engine") -> None:
        super().__init__(f"this {what} is being changed by {holder}: wait for it, or go through it")
        self.holder = holder


class EngineLock:
    """The right to change one boot of one engine; `what` says for whom, as the next one will read it."""

    _of = "engine"

    def __init__(self, directory: Path, boot_id: str, what: str = "trimtab") -> None:
        self.path = directory / f"{self._of}-{_file_name(boot_id)}.lock"
        self._what = what
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._file is not None

    def acquire(self) -> None:
        """Take the lock at once; raise `LockHeld` with its holder, or `LockError` if there can be no file."""
        if self._file is not None:
            raise LockHeld(_read_holder(self._file), self._of)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while self._file is None:
                self._file = self._try()
        except OSError as error:
            raise LockError(f"{self.path}: {error.strerror} (check the runtime directory)") from error

    def release(self) -> None:
        """Give the lock back and remove its file; nothing happens if it is not held."""
        if self._file is None:
            return
        # Removed while still held: whoever opened the old file sees that it is not the one at the path.
        self.path.unlink(missing_ok=True)
        os.close(self._file)
        self._file = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _try(self) -> int | None:
        """Return the locked file, or None if its holder removed it meanwhile."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_at_path(file):
                os.close(file)
                return None
            os.ftruncate(file, 0)
            os.pwrite(file, self._holder().encode(), 0)
        except BlockingIOError:
            holder = _read_holder(file)
            os.close(file)
            raise LockHeld(holder, self._of) from None
        except BaseException:
            os.close(file)
            raise
        return file

    def _is_at_path(self, file: int) -> bool:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        mine = os.fstat(file)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _holder(self) -> str:
        started = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
        return f"{self._what} (pid {os.getpid()}, started {started:%Y-%m-%d %H:%M:%S} UTC)"


class NodeLock(EngineLock):
    """The right to change what all processes of one boot of a host share; taken after an engine's, never before."""

    _of = "node"


def _read_holder(file: int) -> str:
    text = os.pread(file, _HOLDER_BYTES, 0).decode(errors="replace")
    return "".join(c for c in text if c.isprintable()) or "another process that has not said who it is"


def _file_name(boot_id: str) -> str:
    """Boot ids come from the engine: one that is not a plain name is replaced by its digest."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", boot_id):
        return boot_id
    return hashlib.sha256(boot_id.encode(errors="surrogatepass")).hexdigest()[:32]
