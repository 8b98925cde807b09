"""Settings become samples; what this kernel does not have is absent."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from collectors.host.host_settings import HostSettingsCollector
from collectors.sample import labels
from sim.host_tree import HostTree


def test_each_setting(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    tree.write("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "1\n")
    tree.write("/sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0 1 2 3\n")
    tree.write("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n")
    tree.write("/proc/sys/kernel/numa_balancing", "0\n")
    tree.write("/proc/500/cgroup", "0::/\n")
    tree.write("/sys/fs/cgroup/cpuset.cpus.effective", "0-2\n")
    collector = HostSettingsCollector(engine_pid=lambda: 500, root=tmp_path)
    found = {(s.name, s.labels): s.value for s in asyncio.run(collector.collect(1.0))}
    assert found == {
        ("trimtab_host_huge_pages_mode", labels(setting="enabled", mode="never")): 1.0,
        ("trimtab_host_khugepaged_defrag", ()): 1.0,
        ("trimtab_host_cpus_by_governor", labels(governor="powersave")): 4.0,
        ("trimtab_host_numa_balancing", ()): 0.0,
        ("trimtab_engine_cpuset_cpus", ()): 3.0,
    }
    assert collector.notes == ()


def test_nothing_known_is_nothing_said(tmp_path: Path) -> None:
    assert asyncio.run(HostSettingsCollector(root=tmp_path).collect(1.0)) == []


def test_this_machine() -> None:
    collector = HostSettingsCollector(engine_pid=os.getpid)
    assert "trimtab_host_swappiness" in {sample.name for sample in asyncio.run(collector.collect(1.0))}
