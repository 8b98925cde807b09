"""The engine's own processes and threads, each told from a reused number, and what its control group allows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from change.host import HostError
from collectors.host.engine_processes import UNKNOWN
from collectors.host.engine_threads import Thread, ThreadTable
from collectors.host.nodes import Nodes, read_nodes
from collectors.host.settings import read_cpuset
from collectors.host.tasks import Allowed, parse_allowed
from collectors.host.tree import EngineTree, Process, read_stat
from daemon.host.files import HostFiles
from daemon.profile.msprof import npu_holders

_TITLE = re.compile(r"(?:VLLM|sglang)::|mindie", re.IGNORECASE)
_MODULE = re.compile(r"vllm\.entrypoints|sglang\.launch_server")
FIRST_NAMESPACE = "pid:[4026531836]"
"""The kernel gives the process namespace of the host itself this fixed number (PROC_PID_INIT_INO)."""


class EngineGone(HostError):
    """The engine's process is not known: it is gone, or cannot be seen from here."""


class OwnEngine:
    """The one engine that the configuration names, as this host's /proc shows it."""

    def __init__(self, files: HostFiles, engine_pid: Callable[[], int | None]) -> None:
        self.files = files
        self._engine_pid = engine_pid

    def processes(self) -> list[Process]:
        """The engine's processes now, the main one first; raises `EngineGone` where it is not known."""
        found = EngineTree(self._engine_pid).processes(self.files, 0.0)
        if not found:
            raise EngineGone(UNKNOWN)
        return found

    def threads(self) -> list[Thread]:
        """Every thread of it now, read in one pass."""
        return ThreadTable().read(self.files, self.processes(), self.nodes())

    def nodes(self) -> Nodes:
        """The host's nodes now."""
        return read_nodes(self.files)

    def lives(self, pid: int, start_ticks: int) -> bool:
        """Whether this process is still the one that began then."""
        return self._began(f"/proc/{pid}/stat") == start_ticks

    def thread_lives(self, pid: int, tid: int, start_ticks: int) -> bool:
        """Whether this thread is still the one that began then; asked before each thread is touched."""
        return self._began(f"/proc/{pid}/task/{tid}/stat") == start_ticks

    def allowed(self) -> Allowed:
        """The CPUs and memory nodes its control group allows; None is no limit that can be seen."""
        pid = self.processes()[0].pid
        group = read_cpuset(self.files, pid)
        status = self.files.text(f"/proc/{pid}/status")
        nodes = parse_allowed(status).nodes if status else None
        if group is None:
            return Allowed(None, nodes)
        return Allowed(group.cpus, group.nodes if group.nodes is not None else nodes)

    def others(self) -> list[str]:
        """Engines of this host that are not ours, in words: a node-wide change would touch them too."""
        own = {process.pid for process in self.processes()}
        own |= self._ancestors(next(iter(own))) | self._ancestors(os.getpid()) | {os.getpid()}
        pids = [int(name) for name in self.files.names("/proc") if name.isdecimal()]
        strangers = [pid for pid in sorted(pids) if pid not in own]
        holders = npu_holders(strangers, self.files.root)
        found = []
        for pid in strangers:
            words = (self.files.text(f"/proc/{pid}/cmdline") or "").split("\0")
            if pid in holders:
                found.append(f"process {pid} has NPU {', '.join(map(str, holders[pid]))} open")
            elif _is_engine(words):
                found.append(f"process {pid} is {' '.join(words[:3]).strip()[:60]}")
        return found

    def blind(self) -> str | None:
        """Why other engines of this host may be here unseen, None where all of its processes can be looked into."""
        proc = self.files.root / "proc"
        try:
            namespace = str((proc / "self/ns/pid").readlink())
        except OSError:
            namespace = "unknown"
        if namespace != FIRST_NAMESPACE:
            return (
                "Trimtab sees the processes of a container only: run it on the host, or with the host's process "
                "namespace (hostPID)"
            )
        for name in self.files.names("/proc"):
            if name.isdecimal():
                try:
                    next((proc / name / "fd").iterdir(), None)
                except PermissionError:
                    return f"the open files of process {name} cannot be read: run Trimtab as root with CAP_SYS_PTRACE"
                except OSError:
                    continue
        return None

    def _began(self, path: str) -> int | None:
        stat = read_stat(self.files, path)
        return None if stat is None or stat.state in "ZX" else stat.start_ticks

    def _ancestors(self, pid: int) -> set[int]:
        found: set[int] = set()
        while pid > 1 and pid not in found:
            found.add(pid)
            stat = read_stat(self.files, f"/proc/{pid}/stat")
            pid = 0 if stat is None else stat.parent
        return found


def _is_engine(words: list[str]) -> bool:
    if _TITLE.match(words[0].rpartition("/")[2]):
        return True
    programs = [word.rpartition("/")[2] for word in words[:2]]
    return ("vllm" in programs and "serve" in words[1:3]) or (
        "-m" in words[1:4] and any(_MODULE.match(word) for word in words[1:5])
    )
