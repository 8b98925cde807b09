"""Which of an engine's threads prepare work (control) and which feed the NPU (compute)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from collectors.host.engine_threads import Thread

Kind = Literal["control", "compute"]

BUSY_SHARE = 0.1
"""Of one core: a thread without a name in a worker process that takes this much feeds the NPU."""

_WORKER = re.compile(r"worker|scheduler_|model_?runner", re.IGNORECASE)
"""Processes that drive an NPU: vLLM's `Worker_TP0`, SGLang's `scheduler_TP0` (which runs the model itself)."""
_CORE = re.compile(r"EngineCore", re.IGNORECASE)
_DISPATCH = re.compile(r"acl_thread", re.IGNORECASE)
_POOL = re.compile(r"^(?:omp|aten|pt_|torch|inductor|openblas|iomp)", re.IGNORECASE)
_ASIDE = re.compile(r"release_thread|hccl|watchdog|monitor|shm_broadcast", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KnownThread:
    """A thread with its kind, and why; `certain` if its name or its process say so, not its CPU use."""

    thread: Thread
    kind: Kind
    why: str
    certain: bool
    use: float | None = None
    """Share of one core between two readings; None with only one."""


def known_threads(before: Iterable[Thread], now: Iterable[Thread], seconds: float) -> list[KnownThread]:
    """Tell the threads apart by two readings `seconds` apart; a new one goes by its name alone."""
    spent = {(thread.tid, thread.start_ticks): thread.cpu_seconds for thread in before}
    threads = list(now)
    drives = _drivers(threads)
    found = []
    for thread in threads:
        earlier = spent.get((thread.tid, thread.start_ticks))
        use = None if earlier is None or seconds <= 0 else max(0.0, thread.cpu_seconds - earlier) / seconds
        kind, why, certain = _kind(thread, thread.pid in drives, use)
        found.append(KnownThread(thread, kind, why, certain, use))
    return found


def drives_npu(role: str) -> bool:
    """Whether a process of this role drives NPUs, as its title tells: a worker, or a core that may have none."""
    return bool(_WORKER.search(role) or _CORE.search(role))


def _drivers(threads: Iterable[Thread]) -> frozenset[int]:
    """The processes that drive NPUs: the workers; without any the engine core; without one, the process itself."""
    roles = {thread.pid: thread.role for thread in threads}
    for pattern in (_WORKER, _CORE):
        found = frozenset(pid for pid, role in roles.items() if pattern.search(role))
        if found:
            return found
    return frozenset(pid for pid, role in roles.items() if role == "main")


def _kind(thread: Thread, drives: bool, use: float | None) -> tuple[Kind, str, bool]:
    if _DISPATCH.search(thread.name):
        return "compute", "hands operators to the NPU's driver", True
    if not drives:
        return "control", f"of {thread.role}, which drives no NPU", True
    if _ASIDE.search(thread.name):
        return "control", "clears up or waits", True
    if thread.tid == thread.pid:
        return "compute", f"main thread of {thread.role}", True
    if _POOL.search(thread.name):
        return "compute", "operators on the CPU", True
    if use is not None and use >= BUSY_SHARE:
        return "compute", f"takes {use:.0%} of a core", False
    return "control", "idle" if use is not None else "its use is not known yet", False
