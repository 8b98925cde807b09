"""Reads the kernel's log from the journal, where /dev/kmsg may not be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from collectors.command import run_command
from collectors.logs.line import bounded
from collectors.sample import CollectorError

ENTRIES = 2000
"""Entries asked for in one go; with more waiting, the oldest of them are passed over by journalctl."""
MAX_BYTES = 16 * 1024 * 1024

NEVER_ANY = "-- No entries --"


@dataclass(slots=True)
class JournalReading:
    """What an answer of journalctl held; `cursor` is the last entry's, None for an answer without entries."""

    lines: list[str] = field(default_factory=list)
    cursor: str | None = None
    notes: list[str] = field(default_factory=list)


def parse_journal(text: str) -> JournalReading:
    """Read `journalctl -o json`: one object a line, of which MESSAGE may be text, a list of bytes or null."""
    reading = JournalReading()
    damaged = 0
    for row in text.splitlines():
        if not row.strip() or row.startswith("-- "):
            continue
        try:
            entry = json.loads(row)
        except (ValueError, RecursionError):
            damaged += 1
            continue
        if not isinstance(entry, dict):
            damaged += 1
            continue
        cursor = entry.get("__CURSOR")
        if isinstance(cursor, str):
            reading.cursor = cursor
        message = _text(entry.get("MESSAGE"))
        if message is None:
            damaged += 1
            continue
        reading.lines.append(bounded(f"[{_seconds(entry.get('_SOURCE_MONOTONIC_TIMESTAMP'))}] {message}"))
    if damaged:
        reading.notes.append(f"journalctl: {damaged} entries could not be read")
    return reading


def _text(message: object) -> str | None:
    if isinstance(message, str):
        return message.split("\n", 1)[0]
    if isinstance(message, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in message):
        return bytes(message).decode(errors="backslashreplace").split("\n", 1)[0]
    return None


def _seconds(stamp: object) -> str:
    digits = stamp if isinstance(stamp, str) and stamp.isdecimal() and len(stamp) < 19 else "0"
    return f"{int(digits) / 1e6:12.6f}"


class Journal:
    """Follows the kernel's entries of the journal; `cursor` is that of an earlier reader."""

    def __init__(
        self,
        command: Sequence[str] = ("journalctl",),
        *,
        cursor: str | None = None,
        timeout_seconds: float = 5.0,
    ) -> None:
        if not command:
            raise ValueError("the command of journalctl is empty")
        self._command = tuple(command)
        self._timeout = timeout_seconds
        self.cursor = cursor

    async def read(self) -> JournalReading:
        """Ask once for what is new; a journal that cannot be read becomes a note."""
        # Without a cursor only the last entry is asked for: it says where the end is, and is not news.
        reach = ("--after-cursor", self.cursor) if self.cursor else ()
        arguments = ("-k", "-o", "json", "--no-pager", "-n", str(ENTRIES if self.cursor else 1), *reach)
        try:
            output = await run_command(
                (*self._command, *arguments), timeout_seconds=self._timeout, max_bytes=MAX_BYTES
            )
        except CollectorError as failure:
            return JournalReading(notes=[str(failure)])
        if output.code != 0:
            said = output.text.strip().splitlines()
            self.cursor = None if said and "cursor" in said[0].lower() else self.cursor
            return JournalReading(
                notes=[f"{self._command[0]}: exit code {output.code}: {said[0][:200] if said else 'no text'}"]
            )
        reading = parse_journal(output.text)
        if self.cursor is None:
            reading.lines.clear()
        elif len(reading.lines) >= ENTRIES:
            reading.notes.append(f"journalctl: {ENTRIES} entries or more waited; older ones were passed over")
        self.cursor = reading.cursor or self.cursor
        return reading
