"""CPU, memory, load and disk of this host (psutil), and the engine's processes where they are known."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from collectors.blocking import Blocking
from collectors.host.cpu_time import CpuTime
from collectors.host.files import SystemFiles
from collectors.host.tree import EngineTree, read_stat
from collectors.sample import CollectorError, Sample, labels

FIRST_CPU_SECONDS = 0.1
"""CPU use is a difference of two readings; the first pass takes the other one this much later."""


class HostCollector:
    """Reads the host.

    `paths` are directories whose file systems are watched. `tree` finds the engine's processes, which
    are read below `root`.
    """

    name = "host"

    def __init__(
        self,
        paths: Sequence[Path] = (Path("/"),),
        *,
        tree: EngineTree | None = None,
        root: Path = Path("/"),
        interval_seconds: float = 5.0,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._paths = tuple(paths)
        self._tree = tree
        self._files = SystemFiles(root)
        self._cpu: tuple[float, float] | None = None
        self._engine_cpu_time = CpuTime()
        watched = ", ".join(str(path) for path in self._paths)
        self._blocking: Blocking[tuple[list[Sample], list[str]]] = Blocking(
            "host-collector", f"is a file system of {watched} dead?"
        )

    async def collect(self, now: float) -> list[Sample]:
        """Read once; raises CollectorError, also while an earlier reading still hangs."""
        samples, notes = await self._blocking.run(lambda: self._read_or_refuse(now))
        self.notes = tuple(notes)
        return samples

    def _read_or_refuse(self, now: float) -> tuple[list[Sample], list[str]]:
        try:
            return self._read(now)
        except (psutil.Error, OSError) as failure:
            raise CollectorError(f"the host's figures cannot be read: {failure}") from failure

    def _read(self, now: float) -> tuple[list[Sample], list[str]]:
        notes: list[str] = []
        self._files.forget_notes()
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        samples = [
            Sample("trimtab_host_memory_available_bytes", float(memory.available), now),
            Sample("trimtab_host_memory_total_bytes", float(memory.total), now),
            Sample("trimtab_host_swap_used_bytes", float(swap.used), now),
        ]
        cpus = psutil.cpu_count()
        if cpus:
            samples.append(Sample("trimtab_host_cpus", float(cpus), now))
        usage = self._cpu_usage()
        if usage is not None:
            samples.append(Sample("trimtab_host_cpu_usage_ratio", usage, now))
        samples.extend(
            Sample("trimtab_host_load_average", load, now, labels(minutes=minutes))
            for minutes, load in zip(("1", "5", "15"), os.getloadavg(), strict=True)
        )
        for path in self._paths:
            try:
                disk = psutil.disk_usage(str(path))
            except OSError as failure:
                notes.append(f"{path}: {failure.strerror}")
                continue
            own = labels(path=str(path))
            samples.append(Sample("trimtab_host_disk_free_bytes", float(disk.free), now, own))
            samples.append(Sample("trimtab_host_disk_total_bytes", float(disk.total), now, own))
        samples.extend(self._engine_samples(now, notes))
        return samples, notes

    def _cpu_usage(self) -> float | None:
        before = self._cpu
        if before is None:
            before = _busy_and_total()
            time.sleep(FIRST_CPU_SECONDS)
        self._cpu = _busy_and_total()
        total = self._cpu[1] - before[1]
        return min(max((self._cpu[0] - before[0]) / total, 0.0), 1.0) if total > 0 else None

    def _engine_samples(self, now: float, notes: list[str]) -> list[Sample]:
        processes = self._tree.processes(self._files, now) if self._tree is not None else []
        stats = [read_stat(self._files, f"/proc/{process.pid}/stat") for process in processes]
        notes.extend(self._files.notes)
        alive = [stat for stat in stats if stat is not None]
        if not alive or len(alive) < len(processes):
            return []  # gone while it was read: absent, not zero
        resident = sum(stat.resident_bytes for stat in alive)
        cpu = self._engine_cpu_time.add(alive)
        threads = sum(stat.threads for stat in alive)
        return [
            Sample("trimtab_engine_process_resident_bytes", resident, now),
            Sample("trimtab_engine_process_cpu_seconds_total", cpu, now),
            Sample("trimtab_engine_process_threads", float(threads), now),
        ]


def _busy_and_total() -> tuple[float, float]:
    """CPU seconds not idle, and all of them; guests are counted within user time already."""
    times = psutil.cpu_times()
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - times.idle - getattr(times, "iowait", 0.0), total
