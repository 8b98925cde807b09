"""Where threads may be put: a node's cores split in two, and which nodes are worth a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from change.host import HostError
from collectors.host.nodes import Node, Nodes, read_cpulist
from daemon.host.files import HostFiles


@dataclass(frozen=True, slots=True)
class Split:
    """The cores of one node for the two kinds of threads; they share no core, not even a sibling of one."""

    control: frozenset[int]
    compute: frozenset[int]

    @property
    def whole(self) -> frozenset[int]:
        """Both."""
        return self.control | self.compute


def usable(node: Node | None, number: int, allowed: frozenset[int] | None) -> frozenset[int]:
    """The node's CPUs inside of what the engine's control group allows; raises `HostError` if there are none."""
    if node is None:
        raise HostError(f"there is no node {number} on this host")
    if node.cpus is None:
        raise HostError(f"the CPUs of node {number} are not known")
    if not node.cpus:
        raise HostError(f"node {number} has memory only, no CPUs: threads cannot run there")
    cpus = node.cpus if allowed is None else node.cpus & allowed
    if not cpus:
        raise HostError(f"the engine's control group (cpuset.cpus) allows no CPU of node {number}")
    return cpus


def split(cpus: frozenset[int], siblings: Mapping[int, frozenset[int]], number: int) -> Split:
    """Give the first half of a node's cores to control threads, the second to compute threads.

    `siblings` are the CPUs of each CPU's core. Raises `HostError` where there are not two cores.
    """
    cores = sorted({siblings.get(cpu, frozenset({cpu})) & cpus for cpu in cpus}, key=min)
    if len(cores) < 2:
        raise HostError(f"node {number} has {len(cores)} core here: two kinds of threads need two")
    half = len(cores) // 2
    return Split(frozenset().union(*cores[:half]), frozenset().union(*cores[half:]))


def read_siblings(files: HostFiles, cpus: Iterable[int]) -> dict[int, frozenset[int]]:
    """The hardware threads of each CPU's core; a CPU that sysfs does not tell of is a core of its own."""
    found = {}
    for cpu in cpus:
        folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        found[cpu] = read_cpulist(files, f"{folder}/thread_siblings_list") or frozenset({cpu})
    return found


def roomiest(nodes: Nodes, memory_allowed: frozenset[int] | None = None) -> int | None:
    """The node with CPUs that has the most free memory, None where that is not known."""
    free = {
        node.number: node.free_bytes
        for node in nodes.by_number.values()
        if node.cpus
        and node.free_bytes is not None
        and (memory_allowed is None or node.number in memory_allowed)
    }
    return max(free, key=lambda number: free[number]) if free else None


def worth_a_trial(
    nodes: Nodes, near: Iterable[int], memory_allowed: frozenset[int] | None = None
) -> list[int]:
    """The nodes nearest to the NPUs and the roomiest one, each once: neither is better by itself."""
    room = roomiest(nodes, memory_allowed)
    wanted = [*sorted(near), *([] if room is None else [room])]
    return [number for number in dict.fromkeys(wanted) if (node := nodes.by_number.get(number)) and node.cpus]
