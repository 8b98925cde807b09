"""The NUMA nodes of this host as samples, and the node each NPU is attached to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from collectors.host.affinity import Device, find_affinity
from collectors.host.nodes import NODES, Node, read_nodes
from collectors.host.reading import FilesCollector
from collectors.sample import CollectorError, Sample, labels


class NumaCollector(FilesCollector):
    """Reads nodes and NPU affinity.

    `devices` gives the PCI bus id of each NPU as the devices' own source has it, `near_cpus` the CPUs that npu-smi's
    topology shows near it.
    """

    name = "numa"

    def __init__(
        self,
        *,
        devices: Callable[[], Mapping[Device, str]] = dict,
        near_cpus: Callable[[], Mapping[Device, str]] = dict,
        root: Path = Path("/"),
        interval_seconds: float = 30.0,
    ) -> None:
        super().__init__(root=root, interval_seconds=interval_seconds)
        self._devices, self._near_cpus = devices, near_cpus
        self._bus_ids: Mapping[Device, str] = {}
        self._near: Mapping[Device, str] = {}

    def prepare(self) -> None:
        """Take the devices there are now."""
        self._bus_ids, self._near = self._devices(), self._near_cpus()

    def read(self, now: float) -> list[Sample]:
        """Read once; raises CollectorError where there are no nodes to read."""
        nodes = read_nodes(self._files)
        if not nodes.by_number:
            raise CollectorError(
                f"no node under {NODES}: a kernel without NUMA, or /sys is not mounted in this container"
            )
        samples = [sample for node in nodes.by_number.values() for sample in _node_samples(node, now)]
        for affinity in find_affinity(self._files, self._bus_ids, self._near, nodes):
            if affinity.node is not None:
                own = affinity.device.labels()
                samples.append(Sample("npu_numa_node", float(affinity.node), now, own))
        return samples


def _node_samples(node: Node, now: float) -> Iterable[Sample]:
    readings = {
        "trimtab_host_numa_node_cpus": None if node.cpus is None else float(len(node.cpus)),
        "trimtab_host_numa_node_memory_total_bytes": node.total_bytes,
        "trimtab_host_numa_node_memory_free_bytes": node.free_bytes,
        "trimtab_host_numa_node_memory_file_bytes": node.file_bytes,
        "trimtab_host_numa_node_memory_shared_bytes": node.shared_bytes,
    }
    own = labels(node=str(node.number))
    return [Sample(name, value, now, own) for name, value in readings.items() if value is not None]
