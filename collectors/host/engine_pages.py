"""On which NUMA nodes the memory of the engine's processes lies."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from collectors.host.files import IncompleteError
from collectors.host.numa_maps import Kind, lines_of, parse_numa_maps, parse_smaps_rollup
from collectors.host.reading import FilesCollector
from collectors.host.tasks import PAGE_BYTES
from collectors.host.tree import EngineTree, Process, read_stat
from collectors.sample import Sample, labels

MAX_MAP_BYTES = 64 * 1024 * 1024
MAX_PASS_SECONDS = 10.0
"""Longest time for all processes."""
MAX_PAGES = 8_000_000
"""The kernel walks every page to answer, and the process waits with its own mapping calls meanwhile."""


class EnginePagesCollector(FilesCollector):
    """Reads `numa_maps` and `smaps_rollup` of each process of the engine.

    Where a process's maps could not be read to their end its role has no sample, never a part of the sum.
    """

    name = "engine_pages"

    def __init__(
        self,
        tree: EngineTree,
        *,
        root: Path = Path("/"),
        interval_seconds: float = 240.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(root=root, interval_seconds=interval_seconds)
        self._tree = tree
        self._clock = clock

    def read(self, now: float) -> list[Sample]:
        """Read once; no samples while no engine is known."""
        placed: dict[tuple[str, Kind, int], float] = defaultdict(float)
        proportional: dict[str, float] = defaultdict(float)
        huge: dict[str, float] = defaultdict(float)
        cut: set[str] = set()
        deadline = self._clock() + MAX_PASS_SECONDS
        for process in self._tree.processes(self._files, now):
            if self._is_too_big(process):
                cut.add(process.role)
                continue
            try:
                for (kind, node), size in self._pages(process, deadline).items():
                    placed[process.role, kind, node] += size
            except IncompleteError:
                cut.add(process.role)
            text = self._files.text(f"/proc/{process.pid}/smaps_rollup") if self._clock() < deadline else None
            if text:
                rollup = parse_smaps_rollup(text)
                if rollup.proportional is not None:
                    proportional[process.role] += rollup.proportional
                if rollup.huge is not None:
                    huge[process.role] += rollup.huge
        samples = [
            Sample(
                "trimtab_engine_memory_on_node_bytes",
                size,
                now,
                labels(process=role, kind=kind, node=str(node)),
            )
            for (role, kind, node), size in placed.items()
            if role not in cut
        ]
        for name, sizes in (
            ("trimtab_engine_process_proportional_bytes", proportional),
            ("trimtab_engine_process_huge_page_bytes", huge),
        ):
            samples += [Sample(name, size, now, labels(process=role)) for role, size in sizes.items()]
        return samples

    def _is_too_big(self, process: Process) -> bool:
        stat = read_stat(self._files, f"/proc/{process.pid}/stat")
        if stat is None or stat.resident_bytes <= MAX_PAGES * PAGE_BYTES:
            return False
        gigabytes = stat.resident_bytes / 1e9
        self._files.note(
            f"process {process.pid} holds {gigabytes:.0f} GB: its pages are too many to be walked"
        )
        return True

    def _pages(self, process: Process, deadline: float) -> dict[tuple[Kind, int], float]:
        path = f"/proc/{process.pid}/numa_maps"
        found = parse_numa_maps(
            lines_of(self._files.chunks(path, MAX_MAP_BYTES, lambda: self._clock() < deadline))
        )
        if found.unread:
            self._files.note(f"{path}: {found.unread} lines cannot be read")
        return dict(found.bytes)
