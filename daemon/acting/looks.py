"""What a capture reads: ends of log files, the kernel's log, the memory of the engine's processes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.host.files import SystemFiles
from collectors.host.numa_maps import parse_numa_maps, parse_smaps_rollup
from collectors.host.tree import Process
from collectors.logs.catalogue import catalogue
from collectors.logs.events import events_of
from collectors.logs.find import Pattern, find_files
from collectors.logs.kmsg import KernelLog
from collectors.logs.line import lines_of
from collectors.logs.rotation import open_file, unreadable

TAIL_BYTES = 128 * 1024
MOST_FILES = 12
KERNEL_LINES = 2000
MOST_PROCESSES = 64
NUMA_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class Look:
    """What was found: texts by file name, figures for the summary, and what could not be read."""

    texts: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def log_tails(patterns: Sequence[Pattern], now: float, recent_seconds: float = 86_400.0) -> Look:
    """The ends of the files that were written last, with the signatures in them; it blocks."""
    look = Look()
    files = [
        file for file in find_files(patterns, look.notes) if now - file.status[1] * 1e-9 < recent_seconds
    ]
    files.sort(key=lambda file: -file.status[1])
    seen: dict[str, int] = {}
    for number, file in enumerate(files[:MOST_FILES]):
        descriptor = open_file(file, look.notes)
        if descriptor is None:
            continue
        try:
            start = max(0, os.fstat(descriptor).st_size - TAIL_BYTES)
            data = os.pread(descriptor, TAIL_BYTES, start)
        except OSError as failure:
            look.notes.append(unreadable(file, failure))
            continue
        finally:
            os.close(descriptor)
        text = (data.partition(b"\n")[2] if start else data).decode(errors="backslashreplace")
        look.texts[f"{number:02d}-{_plain(file.path.name)}.txt"] = f"{file.path}\n{text}"
        _count(text, seen)
    look.figures = {"files": len(look.texts), "signatures": dict(sorted(seen.items()))}
    if len(files) > MOST_FILES:
        look.notes.append(f"{len(files)} log files: only the {MOST_FILES} written last were taken")
    if not files:
        look.notes.append("no log file was written within the last day")
    return look


def kernel_tail(kmsg: Path | None) -> Look:
    """The end of the kernel's buffer, with the signatures in it; it blocks."""
    look = Look()
    if kmsg is None:
        look.notes.append("the kernel's log is not read here: collect.logs.kmsg, or the deployment, says so")
        return look
    log = KernelLog(kmsg, seq=-1)  # the number of no record: the whole buffer is news, and its end is kept
    lines: list[str] = []
    try:
        while (reading := log.read()).lines:
            lines = [*lines, *reading.lines][-KERNEL_LINES:]
            look.notes += reading.notes
        look.notes += reading.notes
    finally:
        log.close()
    text = "\n".join(lines)
    seen: dict[str, int] = {}
    _count(text, seen)
    if lines:
        look.texts["dmesg.txt"] = text + "\n"
    look.figures = {"lines": len(lines), "signatures": dict(sorted(seen.items()))}
    return look


def process_memory(processes: Sequence[Process], files: SystemFiles) -> Look:
    """What the engine's processes hold of the host's memory, and on which node; it blocks."""
    look = Look()
    rows: list[dict[str, Any]] = []
    for process in processes[:MOST_PROCESSES]:
        name = f"{process.pid}-{_plain(process.role)}"
        rollup = files.text(f"/proc/{process.pid}/smaps_rollup")
        numa = files.text(f"/proc/{process.pid}/numa_maps", NUMA_BYTES)
        row: dict[str, Any] = {"pid": process.pid, "role": process.role}
        if rollup:
            look.texts[f"{name}-smaps_rollup.txt"] = rollup
            parsed = parse_smaps_rollup(rollup)
            row |= {
                "resident_bytes": parsed.resident,
                "proportional_bytes": parsed.proportional,
                "swapped_bytes": parsed.swapped,
            }
        if numa:
            row["bytes_by_node"] = _by_node(numa)
        rows.append(row)
    look.notes += files.notes
    if not processes:
        look.notes.append("the engine's processes cannot be seen from here")
    known = [row["resident_bytes"] for row in rows if row.get("resident_bytes") is not None]
    look.figures = {"processes": rows, "resident_bytes": sum(known) if known else None}
    return look


def _by_node(text: str) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for (_, node), size in parse_numa_maps(text.splitlines()).bytes.items():
        found[str(node)] = found.get(str(node), 0.0) + size
    return dict(sorted(found.items()))


def _count(text: str, seen: dict[str, int]) -> None:
    for event in events_of(lines_of(text), catalogue()):
        seen[event.signature.id] = seen.get(event.signature.id, 0) + 1


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]
