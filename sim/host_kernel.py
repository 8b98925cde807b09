"""The kernel of a laid host: places threads and pages in the tree's own files, as Linux would."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import numpy as np

from change.host import HostError
from collectors.host.cpulist import format_cpulist, parse_cpulist
from daemon.host.kernel import Addresses, Statuses, ThreadGone

_ALLOWED = re.compile(r"^(Cpus_allowed_list:[ \t]*)(.*)$", re.MULTILINE)


class LaidKernel:
    """Keeps affinity in `status` and where pages are in `numa_maps`; see `daemon.host.kernel.Kernel`.

    `pinned` are addresses of pages that a driver holds: they do not move.
    """

    def __init__(self, root: Path, page_bytes: int = 4096) -> None:
        self._root = root
        self._page_bytes = page_bytes
        self._pages: dict[tuple[int, int], int] = {}
        self._names: dict[tuple[int, int], tuple[int, str]] = {}
        self.pinned: set[int] = set()
        self.offline: frozenset[int] = frozenset()

    def map(self, pid: int, start: int, nodes: list[int], what: str = "anon=1") -> None:
        """Give a process a mapping, page by page; a node of -1 is a page that is not present."""
        for index, node in enumerate(nodes):
            self._names[pid, start + index * self._page_bytes] = (start, what)
            if node >= 0:
                self._pages[pid, start + index * self._page_bytes] = node
        self._write_maps(pid)

    def nodes_of(self, pid: int) -> list[int]:
        """The node of each page that is present, by address."""
        return [node for (owner, _), node in sorted(self._pages.items()) if owner == pid]

    def affinity(self, tid: int) -> frozenset[int]:
        """The CPUs a thread may run on."""
        match = _ALLOWED.search(self._status(tid).read_text())
        if match is None:
            raise ThreadGone(tid)
        return parse_cpulist(match[2])

    def set_affinity(self, tid: int, cpus: frozenset[int]) -> None:
        """Let a thread run on these only."""
        path = self._status(tid)
        usable = cpus - self.offline
        if not usable:
            raise HostError(f"thread {tid} may not run on any of {sorted(cpus)}")
        path.write_text(_ALLOWED.sub(lambda m: m[1] + format_cpulist(usable), path.read_text()))

    def page_nodes(self, pid: int, addresses: Addresses) -> Statuses:
        """Where each page is."""
        if not (self._root / "proc" / str(pid)).exists():
            raise ThreadGone(pid)
        found = [self._pages.get((pid, int(address)), -errno.ENOENT) for address in addresses]
        return np.array(found, dtype=np.int32)

    def move_pages(self, pid: int, addresses: Addresses, nodes: Statuses, *, shared: bool) -> Statuses:
        """Move each page that is present and not pinned."""
        del shared
        for address, node in zip(addresses, nodes, strict=True):
            key = (pid, int(address))
            if key in self._pages and int(address) not in self.pinned:
                self._pages[key] = int(node)
        self._write_maps(pid)
        return self.page_nodes(pid, addresses)

    def _status(self, tid: int) -> Path:
        found = next((self._root / "proc").glob(f"[0-9]*/task/{tid}/status"), None)
        if found is None:
            raise ThreadGone(tid)
        return found

    def _write_maps(self, pid: int) -> None:
        starts: dict[int, tuple[int, str, dict[int, int]]] = {}
        for (owner, address), (start, what) in sorted(self._names.items()):
            if owner == pid:
                end, _, counts = starts.get(start, (0, what, {}))
                node = self._pages.get((pid, address))
                if node is not None:
                    counts[node] = counts.get(node, 0) + 1
                starts[start] = (max(end, address + self._page_bytes), what, counts)
        folder = self._root / "proc" / str(pid)
        size = self._page_bytes // 1024
        (folder / "numa_maps").write_text(
            "".join(
                f"{start:x} default {what} {' '.join(f'N{n}={c}' for n, c in sorted(counts.items()))} "
                f"kernelpagesize_kB={size}\n"
                for start, (_, what, counts) in starts.items()
            )
        )
        (folder / "maps").write_text(
            "".join(f"{start:x}-{end:x} rw-p 00000000 00:00 0\n" for start, (end, _, _) in starts.items())
        )
