"""The sources of what is read of the host, and what they take from the readings of the devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from collectors.history import History
from collectors.host.affinity import Device
from collectors.host.cpulist import format_cpulist
from collectors.host.engine_pages import EnginePagesCollector
from collectors.host.engine_processes import EngineProcessesCollector
from collectors.host.engine_threads import EngineThreadsCollector
from collectors.host.host import HostCollector
from collectors.host.host_settings import HostSettingsCollector
from collectors.host.interrupts import InterruptsCollector
from collectors.host.numa import NumaCollector
from collectors.host.stalled_cycles import StalledCyclesCollector
from collectors.host.tree import EngineTree
from collectors.npu_smi.program import NpuSmi
from collectors.sample import Collector
from daemon.sections.collect import CollectSection

FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The name every Linux kernel gives the namespace in which process numbers are the host's own."""


def host_collectors(
    collect: CollectSection,
    history: History,
    engine_pid: Callable[[], int | None],
    npu_smi: NpuSmi | None = None,
) -> list[Collector]:
    """Those that are switched on, in the order in which they are shown."""
    near = partial(near_cpus, npu_smi)
    tree = EngineTree(engine_pid)
    devices = partial(bus_ids, history)
    chosen: list[tuple[bool, Callable[[], Collector]]] = [
        (
            collect.host.enabled,
            lambda: HostCollector((Path("/"),), tree=tree, interval_seconds=collect.host.interval_seconds),
        ),
        (
            collect.numa.enabled,
            lambda: NumaCollector(
                devices=devices, near_cpus=near, interval_seconds=collect.numa.interval_seconds
            ),
        ),
        (
            collect.engine_processes.enabled,
            lambda: EngineProcessesCollector(
                tree, interval_seconds=collect.engine_processes.interval_seconds
            ),
        ),
        (
            collect.engine_threads.enabled,
            lambda: EngineThreadsCollector(
                tree,
                npu_nodes=partial(npu_nodes, history),
                interval_seconds=collect.engine_threads.interval_seconds,
            ),
        ),
        (
            collect.engine_pages.enabled,
            lambda: EnginePagesCollector(tree, interval_seconds=collect.engine_pages.interval_seconds),
        ),
        (
            collect.host_settings.enabled,
            lambda: HostSettingsCollector(
                engine_pid=engine_pid, interval_seconds=collect.host_settings.interval_seconds
            ),
        ),
        (
            collect.interrupts.enabled,
            lambda: InterruptsCollector(
                devices=devices, near_cpus=near, interval_seconds=collect.interrupts.interval_seconds
            ),
        ),
        (
            collect.stalled_cycles.enabled,
            lambda: StalledCyclesCollector(
                tree,
                collect.stalled_cycles.command,
                seconds=collect.stalled_cycles.seconds,
                interval_seconds=collect.stalled_cycles.interval_seconds,
            ),
        ),
    ]
    return [build() for enabled, build in chosen if enabled]


def bus_ids(history: History) -> dict[Device, str]:
    """The PCI bus id of each NPU, as the devices' own sources gave it last."""
    found: dict[Device, str] = {}
    for own in history.series("npu_info"):
        pairs = dict(own)
        if "bus_id" in pairs:
            found[Device(pairs.get("npu", ""), pairs.get("chip", ""), pairs.get("name", ""))] = pairs[
                "bus_id"
            ]
    return found


def near_cpus(npu_smi: NpuSmi | None) -> dict[Device, str]:
    """The CPUs that npu-smi's topology shows near each NPU."""
    known = npu_smi.near_cpus if npu_smi is not None else {}
    return {Device(one.npu, one.chip, one.name or ""): format_cpulist(cpus) for one, cpus in known.items()}


def npu_nodes(
    history: History, own_namespace: Callable[[], str | None] = lambda: _pid_namespace()
) -> dict[int, frozenset[int]]:
    """The NUMA nodes of the NPUs that each process uses, by its number.

    Empty in a container with process numbers of its own: the devices know a process by the host's number.
    """
    if own_namespace() != FIRST_PID_NAMESPACE:
        return {}
    node_of: dict[tuple[str, str], int] = {}
    for own in history.series("npu_numa_node"):
        sample, pairs = history.latest("npu_numa_node", own), dict(own)
        if sample is not None and isinstance(sample.value, float):
            node_of[pairs.get("npu", ""), pairs.get("chip", "")] = int(sample.value)
    found: dict[int, set[int]] = defaultdict(set)
    for own in history.series("npu_process_memory_bytes"):
        pairs = dict(own)
        node = node_of.get((pairs.get("npu", ""), pairs.get("chip", "")))
        if node is not None and pairs.get("pid", "").isdecimal():
            found[int(pairs["pid"])].add(node)
    return {pid: frozenset(nodes) for pid, nodes in found.items()}


def _pid_namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None
