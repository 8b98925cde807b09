"""CPU, memory, load and disk of this host, and the engine's processes where they are known (psutil)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from collectors.host.blocking import Blocking
from collectors.sample import CollectorError, Sample, labels

FIRST_CPU_SECONDS = 0.1
"""CPU use is a difference of two readings; the first pass takes the other one this much later."""


class HostCollector:
    """Reads the host.

    `paths` are directories whose file systems are watched. `engine_pid` gives the engine's main process where
    this process can see it, or None.
    """

    name = "host"

    def __init__(
        self,
        paths: Sequence[Path] = (Path("/"),),
        *,
        engine_pid: Callable[[], int | None] | None = None,
        interval_seconds: float = 5.0,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._paths = tuple(paths)
        self._engine_pid = engine_pid
        self._engine: psutil.Process | None = None
        self._cpu: tuple[float, float] | None = None
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
        pid = self._engine_pid() if self._engine_pid is not None else None
        if pid is None:
            self._engine = None
            return []
        try:
            # The kept object knows its start time: a number given to another process is not taken for it.
            if self._engine is None or self._engine.pid != pid or not self._engine.is_running():
                self._engine = psutil.Process(pid)
            resident, cpu, threads = 0, 0.0, 0
            for process in (self._engine, *self._engine.children(recursive=True)):
                times = process.cpu_times()
                resident += process.memory_info().rss
                # With the children it has reaped, or the sum would fall when one ends.
                cpu += times.user + times.system + times.children_user + times.children_system
                threads += process.num_threads()
        except psutil.NoSuchProcess:
            return []  # gone while it was read: absent, not zero
        except psutil.AccessDenied:
            notes.append(f"no permission to read process {pid}")
            return []
        return [
            Sample("trimtab_engine_process_resident_bytes", float(resident), now),
            Sample("trimtab_engine_process_cpu_seconds_total", cpu, now),
            Sample("trimtab_engine_process_threads", float(threads), now),
        ]


def _busy_and_total() -> tuple[float, float]:
    """CPU seconds not idle, and all of them; guests are counted within user time already."""
    times = psutil.cpu_times()
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - times.idle - getattr(times, "iowait", 0.0), total
