"""Reads files of a system's /proc and /sys within bounds, and keeps what could not be read as notes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

MAX_BYTES = 1024 * 1024
"""A file of /proc or /sys is small; the few long ones are read with a limit of their own."""
RECORD_BYTES = 4096
MAX_NOTES = 12

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV, errno.ENXIO)
"""What a file answers that this kernel does not have, or whose process or device is gone."""


class IncompleteError(Exception):
    """A file could not be read to its end; the reason is among the notes."""


class SystemFiles:
    """The files below `root`, which is the machine's own or a tree laid out like it.

    A file that is absent (an older kernel, a process that ended) is None and nothing more; one that is there and
    cannot be read, or that is longer than allowed, is None and a note.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = os.fspath(root).rstrip("/")
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read since `forget_notes`: each thing once, a bounded number, a count of the rest."""
        notes = tuple(self._notes)
        if len(notes) <= MAX_NOTES:
            return notes
        return (*notes[: MAX_NOTES - 1], f"and {len(notes) - MAX_NOTES + 1} more of the kind")

    def note(self, text: str) -> None:
        """Remember what could not be read, and where."""
        self._notes[text] = None

    def forget_notes(self) -> None:
        """Begin a new reading."""
        self._notes.clear()

    def text(self, path: str, max_bytes: int = MAX_BYTES) -> str | None:
        """What is written at `path` (absolute, as on the machine itself), or None."""
        data = self.data(path, max_bytes)
        return None if data is None else data.decode("utf-8", "backslashreplace")

    def number(self, path: str) -> int | None:
        """The one whole number written at `path`; None if it is absent or something else (a note)."""
        text = self.text(path)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            self.note(f"{path}: {text.strip()[:40]!r} is no whole number")
            return None

    def data(self, path: str, max_bytes: int = MAX_BYTES) -> bytes | None:
        """The same, as bytes."""
        # os.open and os.read: for a file of /proc, half the cost of a file object.
        try:
            handle = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as failure:
            self._failed(path, failure)
            return None
        try:
            pieces = [os.read(handle, min(max_bytes + 1, 65536))]
            length = len(pieces[0])
            # A short answer is not the end: files of /proc answer in pieces.
            while pieces[-1] and length <= max_bytes:
                pieces.append(os.read(handle, min(max_bytes + 1 - length, 65536)))
                length += len(pieces[-1])
        except OSError as failure:
            self._failed(path, failure)
            return None
        finally:
            os.close(handle)
        if length > max_bytes:
            self.note(f"{path} is longer than {max_bytes} bytes")
            return None
        return b"".join(pieces)

    def record(self, path: str) -> str | None:
        """A file of one short record, such as `stat`, which the kernel gives whole in one reading; or None."""
        try:
            handle = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as failure:
            self._failed(path, failure)
            return None
        try:
            return os.read(handle, RECORD_BYTES).decode("utf-8", "backslashreplace")
        except OSError as failure:
            self._failed(path, failure)
            return None
        finally:
            os.close(handle)

    def chunks(self, path: str, max_bytes: int, go_on: Callable[[], bool] = lambda: True) -> Iterator[bytes]:
        """A long file piece by piece; nothing where it is absent.

        Raises IncompleteError, and notes why, where it cannot be read, is longer than `max_bytes`, or `go_on`
        says that there is no time for more.
        """
        try:
            with Path(self._root + path).open("rb", buffering=0) as file:
                length = 0
                while chunk := file.read(65536):
                    length += len(chunk)
                    if length > max_bytes:
                        raise self._cut(f"{path} is longer than {max_bytes} bytes")
                    yield chunk
                    if not go_on():
                        raise self._cut(f"{path} takes too long to read: left after {length} bytes")
        except OSError as failure:
            self._failed(path, failure)
            if failure.errno not in _ABSENT:
                raise IncompleteError(path) from failure

    def _cut(self, why: str) -> IncompleteError:
        self.note(why)
        return IncompleteError(why)

    def names(self, path: str) -> list[str]:
        """What a folder holds; empty when it is absent or cannot be listed (a note)."""
        try:
            return [entry.name for entry in os.scandir(self._root + path or "/")]
        except OSError as failure:
            self._failed(path, failure)
            return []

    def exists(self, path: str) -> bool:
        """Whether something is at `path`."""
        return Path(self._root + path).exists()

    def readable(self, path: str) -> bool:
        """Whether this user may read what is at `path`."""
        return os.access(self._root + path, os.R_OK)

    def _failed(self, path: str, failure: OSError) -> None:
        if failure.errno not in _ABSENT:
            self.note(f"{path}: {failure.strerror}")
