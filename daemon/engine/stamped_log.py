"""Reading on in a container's log by the time stamps that Docker and Kubernetes put before each line.

Neither offers an offset. A position here is the run that was read, the stamp of its last line and how many lines
bear that stamp, so that nothing is given twice and nothing of one instant is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from change.server import LogPart

NANOSECONDS = 1_000_000_000
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_HEADER = 8
_STREAMS = (0, 1, 2)


def nanoseconds(stamp: str) -> int | None:
    """Nanoseconds of the Unix time that an RFC 3339 stamp names, or None if it is not one or is before 1970."""
    found = _STAMP.fullmatch(stamp)
    if found is None:
        return None
    whole, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(whole + ("+00:00" if zone == "Z" else zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    seconds = int(moment.timestamp())
    return None if seconds < 0 else seconds * NANOSECONDS + int((fraction or "").ljust(9, "0"))


@dataclass(frozen=True, slots=True)
class Line:
    """A line and the nanoseconds of its stamp."""

    stamp: int
    text: str


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run's log was read; `stamp` in nanoseconds, `count` lines were seen that bear it."""

    run: str
    stamp: int = 0
    count: int = 0

    @classmethod
    def parse(cls, text: str | None, run: str) -> Position:
        """Read a position; one of another run, or of none, is the beginning of `run`."""
        parts = (text or "").rsplit(" ", 2)
        if len(parts) != 3 or parts[0] != run or not (parts[1].isdecimal() and parts[2].isdecimal()):
            return cls(run)
        return cls(run, int(parts[1]), int(parts[2]))

    def __str__(self) -> str:
        return f"{self.run} {self.stamp} {self.count}"


def read_on(lines: Iterable[Line], after: Position) -> LogPart:
    """The lines that come after a position; `lines` are in their order and may begin before it."""
    found: list[str] = []
    stamp, count, equal = after.stamp, after.count, 0
    for line in lines:
        if line.stamp < after.stamp:
            continue
        if line.stamp == after.stamp:
            equal += 1
            if equal <= after.count:
                continue
        found.append(line.text)
        if line.stamp == stamp:
            count += 1
        elif line.stamp > stamp:
            stamp, count = line.stamp, 1
    return LogPart(tuple(found), str(Position(after.run, stamp, count)))


def stamped_lines(text: str) -> Iterator[Line]:
    """Lines of the form `STAMP TEXT`; one without a stamp belongs to the instant of the one before it."""
    stamp = 0
    for line in text.split("\n"):
        head, _, rest = line.partition(" ")
        found = nanoseconds(head)
        if found is not None:
            stamp = found
            yield Line(stamp, rest.rstrip("\r"))
        elif line.strip():
            yield Line(stamp, line.rstrip("\r"))


def frames(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Split Docker's multiplexed stream into (stream, payload): eight bytes before each say which and how long.

    A frame that was cut off at the end is left out. Raises ValueError for something else than such a stream.
    """
    at = 0
    while at + _HEADER <= len(body):
        stream, length = body[at], int.from_bytes(body[at + 4 : at + _HEADER], "big")
        if stream not in _STREAMS or body[at + 1 : at + 4] != b"\0\0\0":
            raise ValueError(f"no frame of a container's log begins at byte {at}")
        if at + _HEADER + length > len(body):
            return
        yield stream, body[at + _HEADER : at + _HEADER + length]
        at += _HEADER + length


def framed_lines(body: bytes) -> Iterator[Line]:
    """Lines of a multiplexed log with stamps; a long line that came in several frames is one line.

    Each frame bears a stamp, also one that goes on with a line (Docker cuts at 16 KiB). The line bears the last
    one's, and a line whose end is not there yet is left for the next reading.
    """
    begun: dict[int, Line] = {}
    for stream, payload in frames(body):
        head, _, rest = payload.decode("utf-8", "replace").partition(" ")
        stamp = nanoseconds(head)
        if stamp is None:
            continue
        before = begun.pop(stream, None)
        line = Line(stamp, ("" if before is None else before.text) + rest)
        if line.text.endswith("\n"):
            yield Line(line.stamp, line.text.rstrip("\r\n"))
        else:
            begun[stream] = line
