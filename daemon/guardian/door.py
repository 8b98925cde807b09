"""The guardian's socket: one request and one answer for each connection, for the same user only, never waiting."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from daemon.guardian.wire import REQUEST_BYTES, Answer, Peer, Request, read_request, socket_path, written
from daemon.process_mark import process_mark

CONNECTIONS = 16
IDLE_SECONDS = 10.0
LONGEST_PATH = 107
"""What a unix address holds on Linux."""


class DoorError(Exception):
    """The socket cannot be opened; the text says where and what to do."""


@dataclass(slots=True)
class _Visit:
    peer: Peer
    begun: float
    read: bytearray = field(default_factory=bytearray)
    write: bytes = b""


class Door:
    """Listens in `run_dir`; `serve(request, peer)` gives the answer. Raises `DoorError`."""

    def __init__(
        self,
        run_dir: Path,
        selector: selectors.BaseSelector,
        serve: Callable[[Request, Peer], Answer],
        clock: Callable[[], float],
    ) -> None:
        self._path = socket_path(run_dir)
        self._selector = selector
        self._serve = serve
        self._clock = clock
        self._visits: dict[socket.socket, _Visit] = {}
        if len(os.fsencode(self._path)) > LONGEST_PATH:
            raise DoorError(
                f"{self._path}: too long for a socket's address; set engine.run_dir to a shorter one"
            )
        self._lock = _lock(run_dir / "serve.lock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._path.unlink(missing_ok=True)  # of one that died: the lock says that none lives
            mask = os.umask(0o177)
            try:
                self._listener.bind(str(self._path))
            finally:
                os.umask(mask)
            self._listener.listen(CONNECTIONS)
        except OSError as error:
            self._listener.close()
            os.close(self._lock)
            raise DoorError(f"{self._path}: cannot listen there: {error.strerror}") from error
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._welcome)

    def close(self) -> None:
        """Stop listening."""
        for connection in list(self._visits):
            self._leave(connection)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._path.unlink(missing_ok=True)
        os.close(self._lock)

    def sweep(self) -> None:
        """Close connections that take too long."""
        now = self._clock()
        for connection, visit in list(self._visits.items()):
            if now - visit.begun > IDLE_SECONDS:
                self._leave(connection)

    def _welcome(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        peer = _peer(connection)
        if peer is None or len(self._visits) >= CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        self._visits[connection] = _Visit(peer, self._clock())
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._go_on(connection))

    def _go_on(self, connection: socket.socket) -> None:
        visit = self._visits[connection]
        try:
            if visit.write:
                visit.write = visit.write[connection.send(visit.write) :]
                if not visit.write:
                    self._leave(connection)
                return
            data = connection.recv(64 * 1024)
        except BlockingIOError:
            return
        except OSError:
            self._leave(connection)
            return
        visit.read += data
        line, ended, _ = bytes(visit.read).partition(b"\n")
        if not ended and data and len(line) <= REQUEST_BYTES:
            return
        if not ended or len(line) > REQUEST_BYTES:
            self._leave(connection)
            return
        visit.write = written(self._answer(line, visit.peer))
        self._selector.modify(connection, selectors.EVENT_WRITE, lambda: self._go_on(connection))

    def _answer(self, line: bytes, peer: Peer) -> Answer:
        try:
            request = read_request(line)
        except ValueError as error:
            return Answer(error=f"the request is not understood: {error}")
        try:
            return self._serve(request, peer)
        except Exception as error:
            # A fault of ours must not end the engine's parent: the one who asked is told.
            return Answer(error=f"the guardian failed: {type(error).__name__}: {error}")

    def _leave(self, connection: socket.socket) -> None:
        del self._visits[connection]
        self._selector.unregister(connection)
        connection.close()


def _lock(path: Path) -> int:
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise DoorError(
            f"{path}: another `trimtab serve` uses this folder; give each engine its own engine.run_dir"
        ) from error
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise DoorError(f"{path}: cannot be locked: {error.strerror}") from error
    return descriptor


def _peer(connection: socket.socket) -> Peer | None:
    """Who is at the other end, or None if it is another user."""
    size = struct.calcsize("3i")
    with contextlib.suppress(OSError):
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if uid in (os.geteuid(), 0):
            return Peer(pid, process_mark(pid))
    return None
