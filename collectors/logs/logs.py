"""Reads the logs of the Ascend stack, the engine and the kernel, and counts what their lines tell of."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from collectors.blocking import Blocking
from collectors.logs.catalogue import catalogue
from collectors.logs.events import Event, events_of
from collectors.logs.find import Pattern
from collectors.logs.follow import Follower
from collectors.logs.journal import Journal
from collectors.logs.kmsg import PASS_RECORDS, KernelLog
from collectors.logs.position import Positions, load, save
from collectors.logs.stamp import is_recent
from collectors.logs.tally import Tally
from collectors.sample import Sample, labels

KERNEL = "kernel"
JOURNAL_SECONDS = 30.0
"""journalctl is a program to be started, so it is asked less often than files are read."""
MAX_NOTES = 50
PRESENT_SECONDS = 300.0
"""What was written so lately counts as happening now, also where nobody read it at once."""
CATCH_UP_SECONDS = 600.0
"""After this long from the start lines count as present, whatever is still to be read."""
TOUCH_SECONDS = 60.0

_log = structlog.get_logger("collectors.logs")


class LogsCollector:
    """Follows log files, and the kernel's log through `kmsg` (a device) or `journal` (a command), or neither.

    `positions_file` keeps how far each log was read over a restart, its own time when that was; with `remembers` false
    it is read and not written, for a single look that must not take lines from the daemon. Counters begin at 0 with the
    process. What was written while nobody read for over `PRESENT_SECONDS` is counted and gives no time of the event,
    unless the line bears a recent one.
    """

    name = "logs"

    def __init__(
        self,
        patterns: Sequence[Pattern],
        *,
        positions_file: Path | None = None,
        remembers: bool = True,
        kmsg: Path | None = None,
        journal: Sequence[str] | None = None,
        interval_seconds: float = 5.0,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._patterns = tuple(patterns)
        self._positions_file = positions_file
        self._remembers = remembers
        self._kmsg_path = kmsg
        self._journal = Journal(journal) if journal is not None else None
        self._journal_due = 0.0
        self._journal_asked = 0
        self._journal_notes: list[str] = []
        self._waiting: list[str] = []
        self._blocking: Blocking[list[Sample]] = Blocking(
            "logs-collector", "is a file system of the logs dead?"
        )
        self._follower: Follower | None = None
        self._kernel: KernelLog | None = None
        self._kept: Positions | None = None
        self._touched = 0.0
        self._away_since: float | None = None
        self._catch_up_until = 0.0
        self._behind: set[str] = set()
        """The kinds of which lines are still read that were written before the start."""
        self._lines: dict[str, int] = {}
        self._tally = Tally()

    async def collect(self, now: float) -> list[Sample]:
        """Read what is new; raises CollectorError while an earlier reading hangs. `notes` tells what is not read."""
        # The positions are read first, on the thread: the journal goes on at its cursor.
        samples = await self._blocking.run(lambda: self._pass(now))
        if self._journal is not None and now >= self._journal_due:
            self._journal_due = now + JOURNAL_SECONDS
            self._journal_asked += 1
            answer = await self._journal.read()
            self._waiting += answer.lines
            self._journal_notes = answer.notes
        return samples

    def _pass(self, now: float) -> list[Sample]:
        """One reading of everything, on a thread: what was read is counted here, also when nobody waits any more."""
        notes: list[str] = list(self._journal_notes)
        remarks: list[str] = []
        follower = self._follower or self._begin(remarks, now)
        reading = follower.read()
        notes += reading.notes
        remarks += reading.remarks
        blocks = [(block.kind, block.path, block.lines) for block in reading.blocks]
        if self._kernel is not None:
            kernel = self._kernel.read()
            notes += kernel.notes
            remarks += kernel.remarks
            blocks.append((KERNEL, str(self._kmsg_path), kernel.lines))
        if self._waiting:
            blocks.append((KERNEL, "journal", self._waiting))
            self._waiting = []
        for kind, path, lines in blocks:
            self._lines[kind] = self._lines.get(kind, 0) + len(lines)
            self._tally.add(kind, path, events_of(lines, catalogue()), now, self._presence(kind, now))
        self._behind &= {*reading.backlog, *self._kernel_behind(blocks)}
        self._save(follower, notes, now)
        self._tell(now, remarks)
        self.notes = tuple([*notes, *remarks][:MAX_NOTES])
        return self._samples(now, reading.backlog)

    def _presence(self, kind: str, now: float) -> Callable[[Event], bool]:
        """What tells whether events of a kind that are read now happened lately."""
        since = self._away_since
        if since is None or kind not in self._behind or now >= self._catch_up_until:
            return lambda event: True
        return lambda event: is_recent(event.line.stamp, since, now, PRESENT_SECONDS)

    def _kernel_behind(self, blocks: Sequence[tuple[str, str, list[str]]]) -> set[str]:
        """The kernel's kind, while its log holds more than was read or the journal has not answered yet."""
        full = any(kind == KERNEL and len(lines) >= PASS_RECORDS for kind, _, lines in blocks)
        waits = self._journal is not None and (self._journal_asked == 0 or bool(self._waiting))
        return {KERNEL} if full or waits else set()

    def _begin(self, remarks: list[str], now: float) -> Follower:
        kept: Positions | None = None
        if self._positions_file is not None:
            try:
                kept = load(self._positions_file)
                if kept is not None:
                    self._find_gap(self._positions_file.stat().st_mtime, now)
            except OSError as failure:
                remarks.append(f"{self._positions_file}: cannot be read: {failure.strerror}")
            except ValueError as failure:
                remarks.append(f"{failure}; logs are read from their present end on")
        self._kept = kept
        if self._kmsg_path is not None:
            self._kernel = KernelLog(
                self._kmsg_path,
                boot_id=kept.boot_id if kept else None,
                seq=kept.kernel_seq if kept else None,
            )
        if self._journal is not None and kept is not None:
            self._journal.cursor = kept.journal_cursor
        self._follower = Follower(self._patterns, kept.files if kept else (), kept.followed if kept else ())
        return self._follower

    def _find_gap(self, saved: float, now: float) -> None:
        if now - saved >= PRESENT_SECONDS:
            self._away_since = saved
            self._catch_up_until = now + CATCH_UP_SECONDS
            self._behind = {KERNEL, *(pattern.kind for pattern in self._patterns)}

    def _save(self, follower: Follower, notes: list[str], now: float) -> None:
        if self._positions_file is None or not self._remembers:
            return
        present = Positions(
            followed=[pattern.glob for pattern in self._patterns],
            files=follower.positions,
            boot_id=self._kernel.boot_id if self._kernel else None,
            kernel_seq=self._kernel.seq if self._kernel else None,
            journal_cursor=self._journal.cursor if self._journal else None,
        )
        if present == self._kept and 0 <= now - self._touched < TOUCH_SECONDS:
            return
        try:
            if present != self._kept:
                save(self._positions_file, present)
            # Its time says at the next start since when nobody read.
            os.utime(self._positions_file, (now, now))
            self._kept, self._touched = present, now
        except OSError as failure:
            notes.append(
                f"{self._positions_file}: cannot be written: {failure.strerror}; after a restart lines are missed"
            )

    def _tell(self, now: float, remarks: Sequence[str]) -> None:
        """One line for the first of its kind, and one with the count when it has been quiet."""
        for remark in remarks:
            _log.warning("reading a log", remark=remark)
        begun, ended = self._tally.told(now)
        for episode in begun:
            signature = episode.event.signature
            say = _log.warning if signature.severity in ("critical", "error") else _log.info
            say(
                "seen in a log",
                signature=signature.id,
                meaning=signature.meaning,
                source=episode.source,
                path=episode.path,
                line=episode.event.line.text,
            )
        for episode in ended:
            _log.info(
                "quiet again in a log",
                signature=episode.event.signature.id,
                source=episode.source,
                events=episode.count,
                seconds=round(episode.last - episode.first),
            )

    def _samples(self, now: float, backlog: dict[str, int]) -> list[Sample]:
        samples = self._tally.samples(now)
        for kind, count in self._lines.items():
            own = labels(source=kind)
            samples.append(Sample("trimtab_log_lines_total", float(count), now, own))
            if kind != KERNEL:
                samples.append(Sample("trimtab_log_backlog_bytes", float(backlog.get(kind, 0)), now, own))
        return samples


def ascend_patterns(folder: Path) -> list[Pattern]:
    """The files that CANN writes below its log folder (`~/ascend/log`): host logs as plog, device logs as device."""
    return [
        Pattern(kind, str(folder / part / name))
        for part in ("debug", "run")
        for kind, name in (("plog", "plog/*.log"), ("device", "device-*/*.log"))
    ]
