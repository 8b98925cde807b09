"""The ends of the log files that were written lately, for a single look that keeps no positions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.logs.catalogue import catalogue
from collectors.logs.events import events_of
from collectors.logs.find import Pattern, find_files
from collectors.logs.line import lines_of
from collectors.logs.rotation import open_file, unreadable
from collectors.logs.tally import Episode, Tally

RECENT_SECONDS = 86_400.0
TAIL_BYTES = 256 * 1024
MOST_FILES = 16


@dataclass(frozen=True, slots=True)
class Tails:
    """One episode for each signature and source; its times are those at which its files were last written."""

    files: int
    episodes: tuple[Episode, ...]
    notes: tuple[str, ...]


def read_tails(patterns: Sequence[Pattern], now: float) -> Tails:
    """Read the last `TAIL_BYTES` of the `MOST_FILES` files written last within `RECENT_SECONDS`; never raises."""
    notes: list[str] = []
    written = {file: file.status[1] * 1e-9 for file in find_files(patterns, notes)}
    recent = sorted(
        (file for file, at in written.items() if now - at < RECENT_SECONDS), key=written.__getitem__
    )
    if len(recent) > MOST_FILES:
        notes.append(f"{len(recent)} log files: only the {MOST_FILES} written last were looked at")
    tally = Tally(quiet_seconds=2 * RECENT_SECONDS)
    count = 0
    for file in recent[-MOST_FILES:]:
        descriptor = open_file(file, notes)
        if descriptor is None:
            continue
        try:
            start = max(0, os.fstat(descriptor).st_size - TAIL_BYTES)
            data = os.pread(descriptor, TAIL_BYTES, start)
        except OSError as failure:
            notes.append(unreadable(file, failure))
            continue
        finally:
            os.close(descriptor)
        count += 1
        # A tail begins within a line, whose rest would be read as another one.
        text = (data.partition(b"\n")[2] if start else data).decode(errors="backslashreplace")
        tally.add(file.kind, str(file.path), events_of(lines_of(text), catalogue()), written[file])
    return Tails(count, tuple(tally.episodes()), tuple(notes))
