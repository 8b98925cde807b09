"""Processes of this host told from reused numbers, by what no step of the clock changes: start ticks and the boot's id.

`psutil.Process.create_time()` is the start in ticks plus the boot's time, and the kernel moves that with the clock.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import psutil

from change.server import ProcessMark

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TICKS = os.sysconf("SC_CLK_TCK")
_STATE, _START = 0, 19
"""Places in `/proc/PID/stat` after the name, which itself may hold blanks and brackets."""
_DEAD = frozenset("ZXx")


def process_mark(pid: int) -> ProcessMark | None:
    """The process of this number as it can be known again; None if there is none."""
    fields = _stat(pid)
    return None if fields is None else ProcessMark(pid, int(fields[_START]) / _TICKS, boot_id())


def mark_of(process: psutil.Process) -> ProcessMark | None:
    """The mark of a process that psutil found; None if it has gone and its number may be another's."""
    found = process_mark(process.pid)
    return found if found is not None and process.is_running() else None


def lives(mark: ProcessMark) -> bool:
    """Whether this very process still runs; a dead one that nobody has buried does not."""
    fields = _stat(mark.pid)
    if fields is None or fields[_STATE] in _DEAD:
        return False
    return ProcessMark(mark.pid, int(fields[_START]) / _TICKS, boot_id()) == mark


@functools.cache
def boot_id() -> str:
    """The kernel's name for this boot of the host; empty where it shows none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > _START else None
