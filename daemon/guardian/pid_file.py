"""The file that tells which process the engine is: number, seconds from the host's boot to its start, boot id."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from change.server import ProcessMark
from daemon.process_mark import lives

_WORDS = 3


def read_pid_file(path: Path) -> ProcessMark | None:
    """The engine that the file names, if that very process lives still; else None."""
    try:
        words = path.read_text().split()
        mark = ProcessMark(int(words[0]), float(words[1]), words[2]) if len(words) == _WORDS else None
    except (OSError, ValueError):
        return None
    return mark if mark is not None and lives(mark) else None


def write_pid_file(path: Path, mark: ProcessMark) -> None:
    """Write it whole or not at all, and follow no link that somebody laid there; raises `OSError`."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o644)
    with contextlib.closing(os.fdopen(descriptor, "w")) as file:
        file.write(f"{mark.pid} {mark.started} {mark.boot}\n")
    beside.replace(path)
