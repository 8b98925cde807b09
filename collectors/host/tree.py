"""The engine's processes: the main one and all that descend from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from collectors.host.files import SystemFiles
from collectors.host.roles import Roles, role
from collectors.host.tasks import Stat, parse_stat

RESCAN_SECONDS = 60.0
"""How often all of /proc is searched for new children; a big host has thousands of processes, most the kernel's."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the engine; `role` is its label (see `collectors.host.roles`)."""

    pid: int
    parent: int
    start_ticks: int
    role: str


def read_stat(files: SystemFiles, path: str) -> Stat | None:
    """The `stat` at a path; None if its task is gone, or if it is damaged (a note)."""
    text = files.record(path)
    if not text:
        return None
    try:
        return parse_stat(text)
    except ValueError as failure:
        files.note(f"{path}: {failure}")
        return None


class EngineTree:
    """Finds the engine's processes, and remembers them for `RESCAN_SECONDS`.

    `engine_pid` gives the main process where this process can see it, or None. A process that ended, also when
    its number was given to another, is dropped at once; a new child is seen at the next search, which an ended
    process brings forward.
    """

    def __init__(self, engine_pid: Callable[[], int | None]) -> None:
        self._engine_pid = engine_pid
        self._main: int | None = None
        self._found: list[Process] = []
        self._searched = float("-inf")
        self._lock = threading.Lock()

    def processes(self, files: SystemFiles, now: float) -> list[Process]:
        """The processes that live; none while no engine is known. `now` is in seconds of any clock."""
        with self._lock:  # several collectors ask, each on a thread of its own
            main = self._engine_pid()
            if main is None:
                self._main, self._found = None, []
                return []
            alive = [process for process in self._found if self._lives(files, process)]
            due = not 0.0 <= now - self._searched < RESCAN_SECONDS
            if due or main != self._main or not alive or len(alive) < len(self._found):
                alive = self._search(files, main)
                self._searched, self._main = now, main
            self._found = alive
            return list(alive)

    def _lives(self, files: SystemFiles, process: Process) -> bool:
        stat = read_stat(files, f"/proc/{process.pid}/stat")
        return stat is not None and stat.start_ticks == process.start_ticks and stat.state not in "ZX"

    def _search(self, files: SystemFiles, main: int) -> list[Process]:
        stats: dict[int, Stat] = {}
        children: dict[int, list[int]] = {}
        for name in files.names("/proc"):
            if not name.isdecimal():
                continue
            stat = read_stat(files, f"/proc/{name}/stat")
            if stat is not None and stat.state not in "ZX":
                stats[int(name)] = stat
                children.setdefault(stat.parent, []).append(int(name))
        found: list[Process] = []
        roles = Roles()
        waiting = [main] if main in stats else []
        seen: set[int] = set()
        while waiting:
            pid = waiting.pop(0)
            if pid in seen:  # a tree read while it changes may seem to have a ring
                continue
            seen.add(pid)
            title = files.text(f"/proc/{pid}/cmdline") or ""
            label = roles.label(role(title, stats[pid].name, main=pid == main))
            found.append(Process(pid, stats[pid].parent, stats[pid].start_ticks, label))
            waiting += sorted(children.get(pid, ()))
        return found
