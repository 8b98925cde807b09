"""NUMA nodes: the CPUs and the memory of each, from sysfs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.host.cpulist import parse_cpulist
from collectors.host.files import SystemFiles

NODES = "/sys/devices/system/node"
_MEMINFO = re.compile(r"^Node\s+\d+\s+(\w+(?:\(\w+\))?):\s+(\d+)\s+kB\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `cpus` is empty for a node of memory only; None is unknown; sizes are in bytes."""

    number: int
    cpus: frozenset[int] | None = None
    total_bytes: float | None = None
    free_bytes: float | None = None
    file_bytes: float | None = None
    """Page cache, shared memory within; the kernel can give back what is not shared memory."""
    shared_bytes: float | None = None
    """Shared memory (shmem, tmpfs)."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes, by number."""

    by_number: Mapping[int, Node]
    _of_cpu: Mapping[int, int] = field(init=False, repr=False, compare=False)
    _of_cpus: dict[frozenset[int], frozenset[int]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        of_cpu = {cpu: node.number for node in self.by_number.values() for cpu in node.cpus or ()}
        object.__setattr__(self, "_of_cpu", of_cpu)

    def of_cpu(self, cpu: int) -> int | None:
        """The node a CPU belongs to, None if no node is known to hold it."""
        return self._of_cpu.get(cpu)

    def of_cpus(self, cpus: frozenset[int]) -> frozenset[int]:
        """The nodes that hold any of these CPUs."""
        found = self._of_cpus.get(cpus)
        if found is None:  # thousands of threads have a handful of sets between them
            found = frozenset(self._of_cpu[cpu] for cpu in cpus if cpu in self._of_cpu)
            self._of_cpus[cpus] = found
        return found


def parse_node_meminfo(text: str) -> dict[str, float]:
    """The fields of a node's meminfo (`MemTotal`, `MemFree`, ...) in bytes."""
    return {name: float(kib) * 1024.0 for name, kib in _MEMINFO.findall(text)}


def read_nodes(files: SystemFiles) -> Nodes:
    """The nodes sysfs shows; none where the kernel has no NUMA. Damage is noted in `files`."""
    found: dict[int, Node] = {}
    for name in files.names(NODES):
        if not (name.startswith("node") and name[4:].isdecimal()):
            continue
        folder = f"{NODES}/{name}"
        memory = parse_node_meminfo(files.text(f"{folder}/meminfo") or "")
        found[int(name[4:])] = Node(
            int(name[4:]),
            read_cpulist(files, f"{folder}/cpulist"),
            memory.get("MemTotal"),
            memory.get("MemFree"),
            memory.get("FilePages"),
            memory.get("Shmem"),
        )
    return Nodes(dict(sorted(found.items())))


def read_cpulist(files: SystemFiles, path: str) -> frozenset[int] | None:
    """The CPUs or nodes a file lists; None if it is absent or no list (a note)."""
    text = files.text(path)
    if text is None:
        return None
    try:
        return parse_cpulist(text)
    except ValueError as failure:
        files.note(f"{path}: {failure}")
        return None
