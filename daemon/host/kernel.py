"""What is asked of the kernel about one thread or one process's pages: affinity and page placement.

The standard library has the first; for the second, move_pages(2), there is no kept library (numa and py-libnuma are
abandoned, and libnuma itself is not on every host), so it is called through the C library's `syscall`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from change.host import HostError

Addresses = NDArray[np.uint64]
Statuses = NDArray[np.int32]
"""For each page the node it is on, or minus an errno: -ENOENT for one that is not present."""

_MOVE_PAGES = {"x86_64": 279, "aarch64": 239}
_MOVE_OWN, _MOVE_ALL = 2, 4
BATCH_PAGES = 32768
"""Pages in one call, so that the process waits for its own mappings no longer than about 0.1 s at a time."""


class ThreadGone(Exception):
    """The thread or process has ended."""


class Kernel(Protocol):
    """Places threads and pages of processes of this host."""

    def affinity(self, tid: int) -> frozenset[int]:
        """The CPUs a thread may run on; raises `ThreadGone`."""
        ...

    def set_affinity(self, tid: int, cpus: frozenset[int]) -> None:
        """Let a thread run on these only; raises `ThreadGone`, or `HostError` with the reason."""
        ...

    def page_nodes(self, pid: int, addresses: Addresses) -> Statuses:
        """Where each page is; raises `ThreadGone`, or `HostError` with the reason."""
        ...

    def move_pages(self, pid: int, addresses: Addresses, nodes: Statuses, *, shared: bool) -> Statuses:
        """Move each page to its node and say where it is now; `shared` also moves those other processes map."""
        ...


class LinuxKernel:
    """This machine's own kernel."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._number = _MOVE_PAGES.get(platform.machine())

    def affinity(self, tid: int) -> frozenset[int]:
        """The CPUs a thread may run on."""
        try:
            return frozenset(os.sched_getaffinity(tid))
        except ProcessLookupError as failure:
            raise ThreadGone(tid) from failure

    def set_affinity(self, tid: int, cpus: frozenset[int]) -> None:
        """Let a thread run on these only."""
        try:
            os.sched_setaffinity(tid, cpus)
        except ProcessLookupError as failure:
            raise ThreadGone(tid) from failure
        except PermissionError as failure:
            raise HostError(
                f"thread {tid} is another user's: run Trimtab as the engine's user or with CAP_SYS_NICE"
            ) from failure
        except OSError as failure:
            raise HostError(
                f"thread {tid} may not run on any of {sorted(cpus)}: {failure.strerror} (is its cpuset another?)"
            ) from failure

    def page_nodes(self, pid: int, addresses: Addresses) -> Statuses:
        """Where each page is."""
        return self._move(pid, addresses, None, 0)

    def move_pages(self, pid: int, addresses: Addresses, nodes: Statuses, *, shared: bool) -> Statuses:
        """Move each page to its node and say where it is now."""
        return self._move(pid, addresses, nodes, _MOVE_ALL if shared else _MOVE_OWN)

    def _move(self, pid: int, addresses: Addresses, nodes: Statuses | None, flags: int) -> Statuses:
        if self._number is None:
            raise HostError(
                f"pages cannot be placed on {platform.machine()}: the number of move_pages is not known"
            )
        statuses = np.full(len(addresses), -errno.ENOENT, dtype=np.int32)
        for start in range(0, len(addresses), BATCH_PAGES):
            part = np.ascontiguousarray(addresses[start : start + BATCH_PAGES], dtype=np.uint64)
            there = (
                None
                if nodes is None
                else np.ascontiguousarray(nodes[start : start + BATCH_PAGES], dtype=np.int32)
            )
            answer = statuses[start : start + BATCH_PAGES]
            done = self._libc.syscall(
                ctypes.c_long(self._number),
                ctypes.c_int(pid),
                ctypes.c_ulong(len(part)),
                ctypes.c_void_p(part.ctypes.data),
                ctypes.c_void_p(None if there is None else there.ctypes.data),
                ctypes.c_void_p(answer.ctypes.data),
                ctypes.c_int(flags),
            )
            # A positive answer is the number of pages that did not move: each has its own status.
            if done < 0:
                raise _refusal(pid, ctypes.get_errno())
        return statuses


def _refusal(pid: int, code: int) -> Exception:
    if code == errno.ESRCH:
        return ThreadGone(pid)
    reason = {
        errno.EPERM: "run Trimtab as the engine's user or with CAP_SYS_NICE and CAP_SYS_PTRACE",
        errno.EACCES: "the node is not among those its control group allows (cpuset.mems)",
        errno.ENODEV: "one of the nodes does not exist",
        errno.ENOSYS: "this kernel has no NUMA",
    }.get(code, os.strerror(code))
    return HostError(f"pages of process {pid} cannot be placed: {reason}")
