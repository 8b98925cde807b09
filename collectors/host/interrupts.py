"""The interrupts of the NPUs: how many, and on which NUMA node they were taken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from collectors.host.affinity import PCI_DEVICES, Device, find_affinity, pci_address
from collectors.host.files import IncompleteError, SystemFiles
from collectors.host.irq import LONGEST_LINE, Interrupt, InterruptsError, parse_interrupts, read_irq_affinity
from collectors.host.nodes import Nodes, read_nodes
from collectors.host.numa_maps import lines_of
from collectors.host.reading import FilesCollector
from collectors.sample import CollectorError, Labels, Sample, labels

PATH = "/proc/interrupts"
MAX_BYTES = 64 * 1024 * 1024
"""320 CPUs and 4,000 interrupts make 15 MB."""
MAX_HANDLERS = 24
"""Handlers told apart; the rest is `other`."""


@dataclass(frozen=True, slots=True)
class NpuInterrupt:
    """An interrupt of an NPU; `device` is None where sysfs does not show whose it is."""

    interrupt: Interrupt
    device: Device | None


def irqs_of_devices(files: SystemFiles, bus_ids: Mapping[Device, str]) -> dict[str, Device]:
    """The numbers of each device's message-signalled interrupts."""
    found: dict[str, Device] = {}
    for device, bus_id in bus_ids.items():
        address = pci_address(bus_id)
        if address is not None:
            found.update(dict.fromkeys(files.names(f"{PCI_DEVICES}/{address}/msi_irqs"), device))
    return found


def read_npu_interrupts(files: SystemFiles, bus_ids: Mapping[Device, str]) -> list[NpuInterrupt]:
    """The NPUs' lines of /proc/interrupts; raises CollectorError where it cannot be read to its end."""
    owners = irqs_of_devices(files, bus_ids)
    found: list[NpuInterrupt] = []
    try:
        for one in parse_interrupts(lines_of(files.chunks(PATH, MAX_BYTES), LONGEST_LINE), owners):
            if isinstance(one, str):
                files.note(f"{PATH}: {one}")
            else:
                found.append(NpuInterrupt(one, owners.get(one.irq)))
    except InterruptsError as failure:
        raise CollectorError(f"{PATH}: {failure}") from failure
    except IncompleteError as failure:
        raise CollectorError(f"{PATH} cannot be read to its end: {'; '.join(files.notes)}") from failure
    return found


class InterruptsCollector(FilesCollector):
    """Reads the NPUs' interrupts; `devices` and `near_cpus` are as in NumaCollector."""

    name = "interrupts"

    def __init__(
        self,
        *,
        devices: Callable[[], Mapping[Device, str]] = dict,
        near_cpus: Callable[[], Mapping[Device, str]] = dict,
        root: Path = Path("/"),
        interval_seconds: float = 60.0,
    ) -> None:
        super().__init__(root=root, interval_seconds=interval_seconds)
        self._devices, self._near_cpus = devices, near_cpus
        self._bus_ids: Mapping[Device, str] = {}
        self._near: Mapping[Device, str] = {}
        self._handlers: set[str] = set()

    def prepare(self) -> None:
        """Take the devices there are now."""
        self._bus_ids, self._near = self._devices(), self._near_cpus()

    def read(self, now: float) -> list[Sample]:
        """Read once; no samples on a host without an NPU."""
        found = read_npu_interrupts(self._files, self._bus_ids)
        if not found:
            return []
        nodes = read_nodes(self._files)
        home = {
            affinity.device: affinity.node
            for affinity in find_affinity(self._files, self._bus_ids, self._near, nodes)
        }
        by_handler: dict[tuple[str, int | None], int] = defaultdict(int)
        by_device: dict[Device, int] = defaultdict(int)
        away: dict[Device, int] = defaultdict(int)
        led_away: dict[Device, int] = defaultdict(int)
        for one in found:
            handler = self._label(one.interrupt.handler)
            own = home.get(one.device) if one.device is not None else None
            to = self._led_to(one.interrupt, nodes) if own is not None else None
            if one.device is not None and to is not None:
                led_away[one.device] += to != {own}
            for node, count in _by_node(one.interrupt, nodes).items():
                by_handler[handler, node] += count
                if one.device is None:
                    continue
                by_device[one.device] += count
                if own is not None and node is not None:
                    away[one.device] += count if node != own else 0
        samples = [
            Sample("trimtab_host_npu_interrupts_total", float(count), now, _handler_labels(handler, node))
            for (handler, node), count in by_handler.items()
        ]
        for name, counts in (
            ("npu_interrupts_total", by_device),
            ("npu_interrupts_off_node_total", away),
            ("npu_interrupts_led_off_node", led_away),
        ):
            samples += [Sample(name, float(count), now, device.labels()) for device, count in counts.items()]
        return samples

    def _led_to(self, interrupt: Interrupt, nodes: Nodes) -> frozenset[int] | None:
        """The nodes whose CPUs get it, else those that may (one that was not set up yet has none); None if unknown."""
        affinity = read_irq_affinity(self._files, interrupt.irq)
        return nodes.of_cpus(affinity.effective or affinity.allowed or frozenset()) or None

    def _label(self, handler: str) -> str:
        if handler in self._handlers or len(self._handlers) < MAX_HANDLERS:
            self._handlers.add(handler)
            return handler
        return "other"


def _by_node(interrupt: Interrupt, nodes: Nodes) -> dict[int | None, int]:
    found: dict[int | None, int] = defaultdict(int)
    for cpu, count in interrupt.counts.items():
        found[nodes.of_cpu(cpu)] += count
    return found


def _handler_labels(handler: str, node: int | None) -> Labels:
    return labels(handler=handler) if node is None else labels(handler=handler, node=str(node))
