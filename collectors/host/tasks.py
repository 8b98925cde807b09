"""The /proc files of a process or a thread: `stat` and `status` (proc_pid_stat(5), proc_pid_status(5))."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from collectors.host.cpulist import parse_cpulist

TICKS = float(os.sysconf("SC_CLK_TCK"))
"""Clock ticks in a second, the unit of CPU times in `stat`."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
"""64 KiB on some aarch64 hosts."""

_STATUS = re.compile(r"^(Cpus_allowed_list|Mems_allowed_list):[ \t]*(.*)$", re.MULTILINE)
_RESIDENT = re.compile(r"^Rss(Anon|File|Shmem):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stat:
    """What `stat` says of a process or thread.

    `name` is cut at 15 characters by the kernel; `cpu` is the one it last ran on; `start_ticks` counts from
    boot and tells a reused number from the first owner.
    """

    number: int
    name: str
    state: str
    parent: int
    cpu_seconds: float
    reaped_cpu_seconds: float
    """CPU time of children that ended and were waited for."""
    threads: int
    start_ticks: int
    resident_bytes: float
    cpu: int


def parse_stat(text: str) -> Stat:
    """Read one `stat`; raises ValueError for a line that is cut or damaged."""
    # The name stands in brackets and may itself hold brackets, blanks and line ends.
    head, bracket, tail = text.rpartition(") ")
    number, opening, name = head.partition(" (")
    fields = tail.split(" ", 38)
    if not bracket or not opening or len(fields) < 37:
        raise ValueError(f"no whole stat line: {text[:60]!r}")
    return Stat(
        number=int(number),
        name=name,
        state=fields[0],
        parent=int(fields[1]),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS,
        reaped_cpu_seconds=(int(fields[13]) + int(fields[14])) / TICKS,
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        resident_bytes=float(int(fields[21]) * PAGE_BYTES),
        cpu=int(fields[36]),
    )


@dataclass(frozen=True, slots=True)
class Allowed:
    """Where the kernel may run a task and place its memory; None is unknown."""

    cpus: frozenset[int] | None
    nodes: frozenset[int] | None


def parse_allowed(status: str) -> Allowed:
    """From `status`; raises ValueError for a list that is none."""
    lists = {key: parse_cpulist(value) for key, value in _STATUS.findall(status)}
    return Allowed(lists.get("Cpus_allowed_list"), lists.get("Mems_allowed_list"))


@dataclass(frozen=True, slots=True)
class Resident:
    """A process's resident memory in bytes; `shared` is shared memory (shmem), `file` mapped files."""

    private: float
    file: float
    shared: float


def parse_resident(status: str) -> Resident | None:
    """From `status`; None for a kernel before 4.5 or a process without memory."""
    kib = {key: float(value) * 1024.0 for key, value in _RESIDENT.findall(status)}
    if len(kib) < 3:
        return None
    return Resident(kib["Anon"], kib["File"], kib["Shmem"])
