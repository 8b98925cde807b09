"""Settings of this host that serving feels, and the cpuset of the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from collectors.host.reading import FilesCollector
from collectors.host.settings import read_cpuset, read_governors, read_huge_pages, read_sysctl
from collectors.sample import Sample, labels


class HostSettingsCollector(FilesCollector):
    """Reads what seldom changes; `engine_pid` gives the engine's main process where it can be seen, or None."""

    name = "host_settings"

    def __init__(
        self,
        *,
        engine_pid: Callable[[], int | None] = lambda: None,
        root: Path = Path("/"),
        interval_seconds: float = 60.0,
    ) -> None:
        super().__init__(root=root, interval_seconds=interval_seconds)
        self._engine_pid = engine_pid

    def read(self, now: float) -> list[Sample]:
        """Read once; what this kernel does not have is absent."""
        huge_pages, sysctl = read_huge_pages(self._files), read_sysctl(self._files)
        samples = [
            Sample("trimtab_host_huge_pages_mode", 1.0, now, labels(setting=setting, mode=mode))
            for setting, mode in (("enabled", huge_pages.enabled), ("defrag", huge_pages.defrag))
            if mode is not None
        ]
        samples += [
            Sample("trimtab_host_cpus_by_governor", float(len(cpus)), now, labels(governor=governor))
            for governor, cpus in sorted(read_governors(self._files).items())
        ]
        pid = self._engine_pid()
        cpuset = read_cpuset(self._files, pid) if pid is not None else None
        readings = {
            "trimtab_host_khugepaged_defrag": huge_pages.khugepaged_defrag,
            "trimtab_host_numa_balancing": sysctl.numa_balancing,
            "trimtab_host_swappiness": sysctl.swappiness,
            "trimtab_host_sched_migration_cost_seconds": sysctl.migration_cost_seconds,
            "trimtab_engine_cpuset_cpus": len(cpuset.cpus) if cpuset and cpuset.cpus is not None else None,
            "trimtab_engine_cpuset_nodes": len(cpuset.nodes) if cpuset and cpuset.nodes is not None else None,
        }
        return samples + [
            Sample(name, float(value), now) for name, value in readings.items() if value is not None
        ]
