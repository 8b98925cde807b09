"""The engine's main process: the one `trimtab serve` started, else the one that listens at the engine's address."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import psutil

from daemon import paths

LOOK_AGAIN_SECONDS = 30.0
"""To find a listener the files of every process are looked through; while none is found, this often."""
FORWARDERS = frozenset(
    {
        "docker-proxy",
        "rootlessport",
        "slirp4netns",
        "conmon",
        "nginx",
        "haproxy",
        "envoy",
        "ssh",
        "sshd",
        "kubectl",
    }
)
"""Programs that listen for another process, which is then the engine and is not known."""


class EngineProcess:
    """Finds the process and remembers it for as long as it lives, told from a reused number by its start time.

    `told` is what `trimtab serve` said and comes first; `clock` counts seconds. Asked from several threads.
    """

    def __init__(
        self,
        url: str,
        *,
        told: Callable[[], int | None] = paths.engine_pid,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._told = told
        self._clock = clock
        self._found: psutil.Process | None = None
        self._looked: float | None = None
        self._lock = threading.Lock()

    def pid(self) -> int | None:
        """Its number here, or None. A search takes up to a second on a large host: not for the event loop."""
        told = self._told()
        if told is not None:
            return told
        with self._lock:
            if self._found is not None:
                if self._found.is_running():
                    return self._found.pid
                self._found, self._looked = None, None
            now = self._clock()
            if self._looked is None or now - self._looked >= LOOK_AGAIN_SECONDS:
                self._looked = now
                self._found = _process(listener(self._url))
            return None if self._found is None else self._found.pid


def listener(url: str) -> int | None:
    """The process of this machine that listens at a loopback address and is no forwarder, or None."""
    parts = urlsplit(url)
    if parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        sockets = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for one in sockets:
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
            process = _process(one.pid)
            return None if process is None else process.pid
    return None


def _process(pid: int | None) -> psutil.Process | None:
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        return None if process.name() in FORWARDERS else process
    except psutil.Error:
        return None
