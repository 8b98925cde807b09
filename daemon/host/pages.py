"""Moves the engine's pages from node to node: its private ones (`memory`) or its shared memory (`shared_memory`).

Each page is asked for and moved by its address (move_pages(2)), not by process (migrate_pages(2)): so it is known which
page was where, the way back is exact, and pages that other programs map as well (libraries) stay where they are.
Where new pages go is not changed: only a thread itself can set that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from change.host import HostError, HostReading
from change.host_knobs import AS_FOUND
from collectors.host.files import IncompleteError
from collectors.host.nodes import Node
from collectors.host.numa_maps import Kind, lines_of, placed_mappings
from collectors.host.tree import Process
from daemon.host.engine import EngineGone, OwnEngine
from daemon.host.kernel import Kernel, Statuses, ThreadGone
from daemon.host.layout import roomiest, worth_a_trial
from daemon.host.page_runs import PagedRange, in_parts, nodes_of, ranges_of, runs_of

NEARLY_ALL = 0.95
"""Share of the pages that makes a node theirs: a few are always pinned by a driver or under I/O."""
MAX_RUNS = 50_000
"""Of one undo; memory that changes its node page by page is interleaved on purpose and left alone."""
PART_PAGES = 1_048_576
SPARSE = 256
"""A mapping of so many times more pages than are present is a reservation: too long to be asked page by page."""
UNSEEN_SHARE = 0.02
"""Of the pages; a few come and go while they are asked for, more could not be put back."""
MAX_MAP_BYTES = 64 * 1024 * 1024
SPARE_SHARE = 0.05
"""Of a node's memory that stays free when pages are moved to it."""
FULL_SHARE = 0.10
"""A node with less than this free is full."""


class Pages:
    """The knob `memory` (kind `private`) or `shared_memory` (kind `shared`); `near` as for `Threads`."""

    def __init__(
        self, engine: OwnEngine, kernel: Kernel, kind: Kind, *, near: Callable[[], Iterable[int]] = tuple
    ) -> None:
        self.knob = "shared_memory" if kind == "shared" else "memory"
        self._engine = engine
        self._kernel = kernel
        self._kind = kind
        self._near = near

    def values(self) -> tuple[str, ...]:
        """The nodes worth a trial that have room; shared memory only off a full node."""
        nodes, allowed = self._engine.nodes(), self._engine.allowed().nodes
        here = self.bytes_by_node()
        if self._kind == "shared":
            full = [number for number in here if _is_full(nodes.by_number.get(number))]
            room = roomiest(nodes, allowed)
            wanted = [room] if full and room is not None else []
        else:
            wanted = worth_a_trial(nodes, self._near(), allowed)
        return tuple(f"node:{number}" for number in wanted if self._no_room(number, here) is None)

    def read(self, *, undo: bool = True) -> HostReading:
        """Name the node that holds nearly all; the undo is the node of every page. Unknown without an engine."""
        try:
            here = self.bytes_by_node()
        except EngineGone as gone:
            return HostReading(self.knob, "engine", None, str(gone))
        total = sum(here.values())
        if total == 0:
            return HostReading(
                self.knob, "engine", None, f"the engine has no {self._kind} pages that can be seen"
            )
        most = max(here, key=lambda number: here[number])
        value = f"node:{most}" if here[most] >= NEARLY_ALL * total else AS_FOUND
        shares = ", ".join(f"{size / 1e6:.0f} MB on node {number}" for number, size in sorted(here.items()))
        if not undo:
            return HostReading(self.knob, "engine", value, shares)
        found, runs, unseen = self._placed()
        if unseen > UNSEEN_SHARE:
            why = (
                f"the kernel does not say of {unseen:.0%} of the pages where they are (Linux 6.1 to 6.5 do not while "
                "numa_balancing marks them): set numa_balancing=0 first"
            )
            return HostReading(self.knob, "engine", value, why)
        if runs > MAX_RUNS:
            why = f"the pages change their node {runs} times: they are interleaved, and no way back could be kept"
            return HostReading(self.knob, "engine", value, why)
        return HostReading(self.knob, "engine", value, shares, {"processes": found})

    def write(self, value: str) -> None:
        """Move the pages; those the kernel will not move (pinned, or gone) stay, as the reading tells."""
        node = int(value.partition(":")[2])
        if (problem := self._no_room(node, self.bytes_by_node())) is not None:
            raise HostError(problem)
        for process in self._engine.processes():
            for mapping, _ in self._mappings(process):
                for part in in_parts(mapping, PART_PAGES):
                    self._move(process.pid, process.start_ticks, part, np.full(part.pages, node, np.int32))

    def restore(self, undo: Mapping[str, Any]) -> None:
        """Move every page that is still there back to its node; pages that came since stay where they are."""
        for pid, start_ticks, mappings in undo.get("processes", ()):
            for start, page_bytes, pages, runs in mappings:
                part = PagedRange(start, page_bytes, pages)
                self._move(pid, start_ticks, part, nodes_of(runs, pages))

    def preview(self, value: str) -> list[str]:
        """What `write` would do, in words."""
        node = int(value.partition(":")[2])
        here = self.bytes_by_node()
        if (problem := self._no_room(node, here)) is not None:
            return [f"nothing: {problem}"]
        moved = {number: size for number, size in here.items() if number != node and size}
        lines = [
            f"{size / 1e6:.0f} MB from node {number} to node {node}" for number, size in sorted(moved.items())
        ]
        if moved and (self._engine.files.number("/proc/sys/kernel/numa_balancing") or 0) > 0:
            lines.append(
                "numa_balancing is on: the kernel may move pages back; numa_balancing=0 goes with it"
            )
        return lines or [f"nothing: all of it is on node {node}"]

    def bytes_by_node(self) -> dict[int, float]:
        """Bytes of the engine's pages of this kind on each node; raises `HostError` where they cannot be read."""
        found: dict[int, float] = defaultdict(float)
        for process in self._engine.processes():
            for _, page_bytes, pages in self._present(process):
                for node, count in pages.items():
                    found[node] += count * page_bytes
        return dict(found)

    def _present(self, process: Process) -> Iterator[tuple[int, int, Mapping[int, int]]]:
        path = f"/proc/{process.pid}/numa_maps"
        if self._engine.files.exists(path) and not self._engine.files.readable(path):
            raise HostError(f"{path} cannot be read: run Trimtab as the engine's user or root")
        try:
            lines = list(lines_of(self._engine.files.chunks(path, MAX_MAP_BYTES)))
        except IncompleteError as failure:
            raise HostError(f"the pages of process {process.pid} cannot be read: {failure}") from failure
        for one in placed_mappings(lines):
            if one.kind == self._kind:
                yield one.address, one.page_bytes, one.pages

    def _mappings(self, process: Process) -> Iterator[tuple[PagedRange, int]]:
        """The mappings that are worth asking of, each with how many of its pages are present."""
        ends = ranges_of(self._engine.files.text(f"/proc/{process.pid}/maps", MAX_MAP_BYTES) or "")
        for start, page_bytes, pages in self._present(process):
            whole = (ends.get(start, start) - start) // page_bytes
            if 0 < whole <= SPARSE * max(sum(pages.values()), 4096):
                yield PagedRange(start, page_bytes, whole), sum(pages.values())

    def _placed(self) -> tuple[list[Any], int, float]:
        """Every page's node as runs, by process and mapping; how many runs; the share of pages not told of."""
        found: list[Any] = []
        count = present = seen = 0
        for process in self._engine.processes():
            mappings: list[Any] = []
            for mapping, pages in self._mappings(process):
                present += pages
                for part in in_parts(mapping, PART_PAGES):
                    try:
                        nodes = self._kernel.page_nodes(process.pid, part.addresses())
                    except ThreadGone:
                        break
                    seen += int(np.count_nonzero(nodes >= 0))
                    runs = runs_of(nodes)
                    count += len(runs)
                    if runs and count <= MAX_RUNS:
                        mappings.append([part.start, part.page_bytes, part.pages, runs])
            found.append([process.pid, process.start_ticks, mappings])
        return found, count, max(0.0, 1 - seen / present) if present else 0.0

    def _move(self, pid: int, start_ticks: int, part: PagedRange, wanted: Statuses) -> None:
        """Move the pages of a part that are present and elsewhere; nothing if the process is another by now."""
        if not self._engine.lives(pid, start_ticks):
            return
        try:
            addresses = part.addresses()
            now = self._kernel.page_nodes(pid, addresses)
            away = np.flatnonzero((now >= 0) & (wanted >= 0) & (now != wanted))
            if len(away):
                self._kernel.move_pages(pid, addresses[away], wanted[away], shared=self._kind == "shared")
        except ThreadGone:
            return

    def _no_room(self, number: int, here: Mapping[int, float]) -> str | None:
        """Why the pages may not go there, None if they may."""
        node = self._engine.nodes().by_number.get(number)
        allowed = self._engine.allowed().nodes
        if node is None:
            return f"there is no node {number} on this host"
        if allowed is not None and number not in allowed:
            return f"the engine's control group (cpuset.mems) does not allow node {number}"
        if node.free_bytes is None or node.total_bytes is None:
            return f"how much memory node {number} has free is not known"
        coming = sum(size for other, size in here.items() if other != number)
        if coming > node.free_bytes - SPARE_SHARE * node.total_bytes:
            return (
                f"node {number} has {node.free_bytes / 1e9:.1f} GB free and {coming / 1e9:.1f} GB would come, "
                f"{SPARE_SHARE:.0%} of it are to stay free"
            )
        return None


def _is_full(node: Node | None) -> bool:
    if node is None or node.free_bytes is None or not node.total_bytes:
        return False
    return node.free_bytes < FULL_SHARE * node.total_bytes
