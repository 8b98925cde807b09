"""The matrix of `npu-smi info -t topo`: how devices reach one another, and the CPUs near each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from collectors.host.cpulist import parse_cpulist
from collectors.lines import numbered
from collectors.npu_smi.cells import BLANK

SELF = "X"


@dataclass(frozen=True, slots=True)
class Topology:
    """Devices as named in the matrix (`NPU0`, `Phy-ID12`, `NIC0`).

    `links` tells for each row and column what the way is (HCCS, HCCS_SW, SIO, UB, PIX, PXB, PHB, SYS); an unknown way
    (`NA`) is not in it, nor is a device's way to itself. `cpus` holds the CPUs near a device where the matrix
    shows them.
    """

    devices: tuple[str, ...]
    links: Mapping[tuple[str, str], str]
    cpus: Mapping[str, tuple[int, ...]]
    notes: tuple[str, ...]


_DEVICE = re.compile(r"(?:NPU|NIC|Phy-ID|Chip)\d+", re.IGNORECASE)
_LEGEND = re.compile(r"Legend:|(?!NPU|NIC|CHIP)[A-Z][A-Z_]{0,11}\s*=\s+\S.*")
_AFFINITY = "CPU Affinity"


def parse_topology(text: str) -> Topology:
    """Read the matrix; rows that do not fit its header become notes. Without a header there are no devices."""
    reader = _Reader({}, {}, [])
    for number, line in numbered(text, reader.notes):
        reader.line(number, line)
    return reader.topology()


@dataclass(slots=True)
class _Reader:
    links: dict[tuple[str, str], str]
    cpus: dict[str, tuple[int, ...]]
    notes: list[str]
    devices: tuple[str, ...] = ()
    affinity: bool = False
    rows: frozenset[str] = frozenset()

    def line(self, number: int, line: str) -> None:
        if _LEGEND.fullmatch(line):
            return
        named, affinity = line, line.endswith(_AFFINITY)
        words = named.removesuffix(_AFFINITY).split()
        if not self.devices and words and all(_DEVICE.fullmatch(word) for word in words):
            if len(set(words)) != len(words):
                self.notes.append(f"line {number}: a device is named twice: {line[:100]}")
            else:
                self.devices, self.affinity = tuple(words), affinity
        elif words and words[0] in self.devices and words[0] not in self.rows:
            self._row(number, line, words[0], words[1:])
        else:
            self.notes.append(f"line {number}: not a row of the matrix: {line[:100]}")

    def _row(self, number: int, line: str, device: str, cells: list[str]) -> None:
        count = len(self.devices)
        # A NIC has no CPUs of its own to show.
        lone = self.affinity and len(cells) == count and not device.upper().startswith(("NPU", "PHY"))
        own = self.devices.index(device)
        if not (len(cells) == count + self.affinity or lone) or cells[own] != SELF:
            self.notes.append(f"line {number}: does not fit the header: {line[:100]}")
            return
        self.rows |= {device}
        for other, cell in zip(self.devices, cells, strict=False):
            if other != device and cell not in BLANK:
                self.links[device, other] = cell
        if len(cells) > count and cells[-1] not in BLANK:
            try:
                self.cpus[device] = tuple(sorted(parse_cpulist(cells[-1])))
            except ValueError as failure:
                self.notes.append(f"line {number}: CPU affinity is {cells[-1]!r}: {failure}")

    def topology(self) -> Topology:
        missing = [device for device in self.devices if device not in self.rows]
        if missing:
            self.notes.append(f"no row for {', '.join(missing)}")
        for (one, other), way in self.links.items():
            back = self.links.get((other, one))
            if back is not None and back != way and one < other:
                self.notes.append(f"{one} to {other} is {way}, but back it is {back}")
        return Topology(self.devices, self.links, self.cpus, tuple(self.notes))
