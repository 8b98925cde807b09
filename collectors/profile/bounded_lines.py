"""Lines of a file that may be anything: cut, not text, or one line of 100 MB. Memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

LONGEST_LINE_BYTES = 1024 * 1024


class Readable(Protocol):
    """A binary file, as far as it is used here."""

    def readline(self, size: int, /) -> bytes: ...


class BoundedLines:
    """Reads a binary file line by line as text, and counts what was wrong with it.

    A line over `LONGEST_LINE_BYTES` is left out and counted in `too_long`; a line that is not UTF-8 keeps
    replacement characters and is counted in `not_text`. `ends_whole` says whether the last line had its end.
    `read` is told how many bytes each line took.
    """

    def __init__(self, file: Readable, read: Callable[[int], None] | None = None) -> None:
        self.too_long = 0
        self.not_text = 0
        self.ends_whole = True
        self._file = file
        self._read = read

    def __iter__(self) -> Iterator[str]:
        first = True
        while line := self._line():
            self.ends_whole = line.endswith(b"\n")
            if len(line) > LONGEST_LINE_BYTES:
                self.too_long += 1
                self._skip_rest(line)
                continue
            if first:
                line = line.removeprefix(b"\xef\xbb\xbf")
                first = False
            try:
                yield line.decode()
            except UnicodeDecodeError:
                self.not_text += 1
                yield line.decode(errors="replace")

    def _line(self) -> bytes:
        line = self._file.readline(LONGEST_LINE_BYTES + 1)
        if self._read is not None:
            self._read(len(line))
        return line

    def _skip_rest(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._line()
        self.ends_whole = bool(line)
