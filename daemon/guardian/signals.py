"""Signals as something that a selector can wait for."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterable, Iterator
from types import FrameType


class Signals:
    """Reads the signals that arrived; `fileno` is ready when there are some."""

    def __init__(self, reader: socket.socket) -> None:
        self._reader = reader

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._reader.fileno()

    def arrived(self) -> list[signal.Signals]:
        """The signals since the last call, in order."""
        try:
            numbers = self._reader.recv(4096)
        except BlockingIOError:
            return []
        return [signal.Signals(number) for number in numbers]


@contextlib.contextmanager
def caught(numbers: Iterable[signal.Signals]) -> Iterator[Signals]:
    """Catch signals for as long as the context lasts; children get the defaults. Only in the main thread.

    A SIGHUP that is ignored already (`nohup`) stays so, here and in the children.
    """
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    woken = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    kept = {}
    try:
        for number in numbers:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            kept[number] = signal.signal(number, _noted)
        yield Signals(reader)
    finally:
        for number, handler in kept.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(woken)
        reader.close()
        writer.close()


def _noted(number: int, frame: FrameType | None) -> None:
    """The wake-up descriptor has the number; a handler is there only so that it gets it."""
