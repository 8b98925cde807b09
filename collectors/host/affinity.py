"""Which CPUs and which NUMA node are near an NPU: from the PCI device in sysfs, or from npu-smi's topology."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from collectors.host.cpulist import parse_cpulist
from collectors.host.files import SystemFiles
from collectors.host.nodes import Nodes, read_cpulist
from collectors.sample import Labels, labels

PCI_DEVICES = "/sys/bus/pci/devices"
_BUS_ID = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """An NPU's chip as the samples of the devices label it."""

    npu: str
    chip: str
    name: str = ""

    def labels(self) -> Labels:
        """The labels of a sample about it."""
        pairs = {"npu": self.npu, "chip": self.chip, "name": self.name}
        return labels(**{key: value for key, value in pairs.items() if value})


@dataclass(frozen=True, slots=True)
class Affinity:
    """What is near a device. `cpus` and `node` are None where they are not known.

    `node` is also None where the near CPUs are those of several nodes.
    """

    device: Device
    cpus: frozenset[int] | None
    node: int | None
    source: Literal["sysfs", "topology"]


def pci_address(bus_id: str) -> str | None:
    """The bus id as sysfs names the device (`0000:c1:00.0`), or None for `NA`, `-` and the like."""
    match = _BUS_ID.fullmatch(bus_id.strip().lower())
    if match is None:
        return None
    # npu-smi may write the domain with eight digits, sysfs writes four.
    domain = int(match[1], 16) if match[1] else 0
    return f"{domain:04x}:{match[2]}"


def read_affinity(files: SystemFiles, bus_ids: Mapping[Device, str]) -> list[Affinity]:
    """The affinity of each device whose bus id sysfs knows; in a container it may know none."""
    found: list[Affinity] = []
    for device, bus_id in sorted(bus_ids.items()):
        address = pci_address(bus_id)
        if address is None:
            continue
        folder = f"{PCI_DEVICES}/{address}"
        node = files.number(f"{folder}/numa_node")
        if node is None or node < 0:
            # -1: the firmware names no node, and the CPU list is then just that of every CPU.
            found.append(Affinity(device, None, None, "sysfs"))
            continue
        found.append(Affinity(device, read_cpulist(files, f"{folder}/local_cpulist"), node, "sysfs"))
    return found


def find_affinity(
    files: SystemFiles, bus_ids: Mapping[Device, str], near_cpus: Mapping[Device, str], nodes: Nodes
) -> list[Affinity]:
    """What sysfs says of each device, and npu-smi's topology (`near_cpus`) where sysfs names no node."""
    found = {one.device: one for one in read_affinity(files, bus_ids)}
    unknown = {
        device: cell
        for device, cell in near_cpus.items()
        if device not in found or found[device].node is None
    }
    found |= {one.device: one for one in affinity_from_topology(unknown, nodes)}
    return [found[device] for device in sorted(found)]


def affinity_from_topology(columns: Mapping[Device, str], nodes: Nodes) -> list[Affinity]:
    """The same from the `CPU Affinity` column of `npu-smi info -t topo`: a list of CPUs for each device.

    Raises ValueError, naming the device, for a cell that is no list.
    """
    found: list[Affinity] = []
    for device, cell in sorted(columns.items()):
        try:
            cpus = parse_cpulist(cell)
        except ValueError as failure:
            raise ValueError(f"CPU affinity of NPU {device.npu} chip {device.chip}: {failure}") from failure
        near = nodes.of_cpus(cpus)
        found.append(Affinity(device, cpus or None, next(iter(near)) if len(near) == 1 else None, "topology"))
    return found
