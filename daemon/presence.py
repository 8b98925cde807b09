"""How commands find the daemon that runs beside an engine: a locked file with its address."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import USAGE, UserError
from daemon.paths import engine_key


@dataclass(frozen=True, slots=True)
class Presence:
    """A running daemon: its process (in its own namespace) and the base address of its web server."""

    pid: int
    url: str


def presence_file(run_dir: Path, engine_url: str) -> Path:
    """The file of the daemon for one engine."""
    return run_dir / f"daemon-{engine_key(engine_url)}.json"


@contextmanager
def announced(run_dir: Path, engine_url: str, web_url: str) -> Iterator[None]:
    """Say where this daemon is, as long as it lives.

    The kernel's lock, not the file, says that it lives: it ends with the process, whatever the death. Raises
    `UserError` if another daemon looks after this engine, or the folder cannot be written.
    """
    path = presence_file(run_dir, engine_url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}; set engine.run_dir", USAGE) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise UserError(
            f"another daemon looks after {engine_url} already ({path}): stop it first", USAGE
        ) from error
    try:
        # A full disk must not keep the daemon from watching; commands then act under the lock.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps({"pid": os.getpid(), "url": web_url}).encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
        os.close(handle)


def find(run_dir: Path, engine_url: str) -> Presence | None:
    """The daemon that looks after an engine, or None."""
    try:
        handle = os.open(presence_file(run_dir, engine_url), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _parse(os.pread(handle, 4096, 0))
        return None
    finally:
        os.close(handle)


def _parse(text: bytes) -> Presence | None:
    try:
        record = json.loads(text)
        return Presence(int(record["pid"]), str(record["url"]))
    except (ValueError, KeyError, TypeError):
        return None
