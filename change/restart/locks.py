"""The locks of a restart: one for the engine's address, and one for each boot of it that is seen on the way."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from change.lock import EngineLock, LockError


class RestartLocks:
    """Holds the locks of one restart. `lock` makes one by name; None where there is nobody to lock out."""

    def __init__(self, lock: Callable[[str], EngineLock] | None, address: str) -> None:
        self._lock = lock
        self._address = address
        self._held: dict[str, EngineLock] = {}

    def __enter__(self) -> Self:
        self.take(f"cold {self._address}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lock in self._held.values():
            lock.release()
        self._held.clear()

    def take(self, name: str) -> None:
        """Take a lock; raises `LockError` if somebody else has it."""
        if self._lock is not None and name not in self._held:
            lock = self._lock(name)
            lock.acquire()
            self._held[name] = lock

    def take_new(self, name: str) -> str | None:
        """Take the lock of a boot that came up just now; returns why it could not be, which is no failure."""
        try:
            self.take(name)
        except LockError as error:
            return str(error)
        return None
