"""Settings of the kernel that serving feels: huge pages, governor, NUMA balancing, swapping, cpusets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from collectors.host.cpulist import parse_cpulist
from collectors.host.files import SystemFiles
from collectors.host.nodes import read_cpulist

_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"
_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_CGROUPS = "/sys/fs/cgroup"
_CHOSEN = re.compile(r"\[([\w+-]{1,40})\]")


def parse_choice(text: str) -> str | None:
    """The chosen word of `always [madvise] never`, None if none is."""
    match = _CHOSEN.search(text)
    return match[1] if match is not None else None


@dataclass(frozen=True, slots=True)
class HugePages:
    """Transparent huge pages: the words in force, and whether khugepaged may defragment. None is unknown."""

    enabled: str | None
    defrag: str | None
    khugepaged_defrag: bool | None


def read_huge_pages(files: SystemFiles) -> HugePages:
    """From /sys/kernel/mm/transparent_hugepage; all unknown in a kernel without them."""
    daemon = files.number(f"{_HUGE_PAGES}/khugepaged/defrag")
    return HugePages(
        _choice(files, f"{_HUGE_PAGES}/enabled"),
        _choice(files, f"{_HUGE_PAGES}/defrag"),
        None if daemon is None else daemon != 0,
    )


def _choice(files: SystemFiles, path: str) -> str | None:
    text = files.text(path)
    if text is None:
        return None
    word = parse_choice(text)
    if word is None:
        files.note(f"{path}: no word is chosen in {text.strip()[:60]!r}")
    return word


def read_governors(files: SystemFiles) -> Mapping[str, frozenset[int]]:
    """The CPUs under each frequency governor; empty where the host does not scale them (most VMs)."""
    found: dict[str, frozenset[int]] = {}
    for policy in files.names(_CPUFREQ):
        if not policy.startswith("policy"):
            continue
        folder = f"{_CPUFREQ}/{policy}"
        governor = (files.text(f"{folder}/scaling_governor") or "").strip()
        cpus = files.text(f"{folder}/affected_cpus")
        if not governor or cpus is None:
            continue
        try:
            mine = parse_cpulist(",".join(cpus.split()))
        except ValueError as failure:
            files.note(f"{folder}/affected_cpus: {failure}")
            continue
        found[governor] = found.get(governor, frozenset()) | mine
    return found


@dataclass(frozen=True, slots=True)
class Sysctl:
    """Settings of /proc/sys; None where this kernel does not have it or does not show it.

    `numa_balancing`: 0 off, 1 on, 2 for tiered memory. `migration_cost_seconds`: how long a task counts as warm
    on its CPU.
    """

    numa_balancing: int | None
    swappiness: int | None
    migration_cost_seconds: float | None


def read_sysctl(files: SystemFiles) -> Sysctl:
    """From /proc/sys, and from debugfs, where kernels since 5.13 keep the migration cost."""
    cost = files.number("/proc/sys/kernel/sched_migration_cost_ns")
    if cost is None:
        cost = _of_root_only(files, "/sys/kernel/debug/sched/migration_cost_ns")
    return Sysctl(
        files.number("/proc/sys/kernel/numa_balancing"),
        files.number("/proc/sys/vm/swappiness"),
        None if cost is None else cost / 1e9,
    )


def _of_root_only(files: SystemFiles, path: str) -> int | None:
    # debugfs is closed to others by design: that it is, is no fault to be told in each pass.
    return files.number(path) if files.readable(path) else None


@dataclass(frozen=True, slots=True)
class Cpuset:
    """What a process's control group allows: CPUs and memory nodes in force, None if it limits neither.

    `group` is the group's path that says so.
    """

    group: str
    cpus: frozenset[int] | None
    nodes: frozenset[int] | None


def parse_groups(text: str) -> Mapping[str, str]:
    """`/proc/PID/cgroup`: the path for each controller of version 1, that of version 2 under the empty name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, first, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if first and second:
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def read_cpuset(files: SystemFiles, pid: int | None = None) -> Cpuset | None:
    """The cpuset of a process (this one if None); None where no cpuset controller shows its group."""
    own = parse_groups(files.text("/proc/self/cgroup") or "")
    groups = own if pid is None else parse_groups(files.text(f"/proc/{pid}/cgroup") or "")
    for mount, controller, cpus, nodes in (
        (f"{_CGROUPS}/cpuset", "cpuset", "cpuset.effective_cpus", "cpuset.effective_mems"),
        (_CGROUPS, "", "cpuset.cpus.effective", "cpuset.mems.effective"),
    ):
        group = groups.get(controller)
        for candidate in _candidates(files, mount, group, own.get(controller)):
            folder = mount + candidate.rstrip("/")
            if files.exists(f"{folder}/{cpus}"):
                return Cpuset(
                    candidate,
                    read_cpulist(files, f"{folder}/{cpus}"),
                    read_cpulist(files, f"{folder}/{nodes}"),
                )
    return None


def _candidates(files: SystemFiles, mount: str, group: str | None, own: str | None) -> list[str]:
    """The group and those above it, nearest first: one without the controller is under its parent's."""
    if group is None or ".." in group.split("/"):  # of a process outside of this control group namespace
        return []
    if files.exists(mount + group):
        names = group.strip("/").split("/")
        return ["/" + "/".join(names[:length]) for length in range(len(names), -1, -1)]
    # In a container the mount may begin at the container's own group, under its full name on the host.
    return ["/"] if group == own else []
