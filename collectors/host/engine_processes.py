"""The engine's process tree: what each process holds of the host's memory."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from collectors.host.reading import FilesCollector
from collectors.host.tasks import parse_resident
from collectors.host.tree import EngineTree
from collectors.sample import Sample, labels

UNKNOWN = (
    "the engine's process is not known, so there are no figures of its processes, threads and pages: start it with "
    "`trimtab serve`, or run Trimtab on its host and as its user or root, with engine.url at a loopback address"
)


class EngineProcessesCollector(FilesCollector):
    """Reads how many processes each part of the engine has, and their resident memory by kind."""

    name = "engine_processes"

    def __init__(self, tree: EngineTree, *, root: Path = Path("/"), interval_seconds: float = 15.0) -> None:
        super().__init__(root=root, interval_seconds=interval_seconds)
        self._tree = tree

    def read(self, now: float) -> list[Sample]:
        """Read once; no samples and a note while no engine is known."""
        count: dict[str, int] = defaultdict(int)
        held: dict[tuple[str, str], float] = defaultdict(float)
        for process in self._tree.processes(self._files, now):
            count[process.role] += 1
            status = self._files.text(f"/proc/{process.pid}/status")
            resident = parse_resident(status) if status is not None else None
            if resident is not None:
                held[process.role, "private"] += resident.private
                held[process.role, "file"] += resident.file
                held[process.role, "shared"] += resident.shared
        if not count:
            self._files.note(UNKNOWN)
        samples = [
            Sample("trimtab_engine_processes", float(number), now, labels(process=role))
            for role, number in count.items()
        ]
        return samples + [
            Sample("trimtab_engine_process_memory_bytes", size, now, labels(process=role, kind=kind))
            for (role, kind), size in held.items()
        ]
