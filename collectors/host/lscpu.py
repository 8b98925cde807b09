"""What `lscpu` prints: the processor and its NUMA nodes, for pasted text and for hosts without sysfs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.host.cpulist import parse_cpulist
from collectors.host.nodes import Node, Nodes

_NODE = re.compile(r"NUMA node(\d{1,9}) CPU\(s\)")


@dataclass(frozen=True, slots=True)
class Lscpu:
    """One `lscpu`; None is what it does not show or shows as `-`.

    `others` are the lines without a meaning here, by key; `notes` what could not be read.
    """

    architecture: str | None = None
    vendor: str | None = None
    model: str | None = None
    board_model: str | None = None
    """The name the firmware gives, which is the full one on Kunpeng."""
    cpus: int | None = None
    online: frozenset[int] | None = None
    threads_per_core: int | None = None
    cores_per_socket: int | None = None
    cores_per_cluster: int | None = None
    sockets: int | None = None
    clusters: int | None = None
    max_hertz: float | None = None
    nodes: Nodes = field(default_factory=lambda: Nodes({}))
    others: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


_TEXTS = {
    "Architecture": "architecture",
    "Vendor ID": "vendor",
    "Model name": "model",
    "BIOS Model name": "board_model",
}
_NUMBERS = {
    "CPU(s)": "cpus",
    "Thread(s) per core": "threads_per_core",
    "Core(s) per socket": "cores_per_socket",
    "Core(s) per cluster": "cores_per_cluster",
    "Socket(s)": "sockets",
    "Cluster(s)": "clusters",
}


def parse_lscpu(text: str) -> Lscpu:
    """Read it; keys differ between versions of util-linux and are looked up by name, in any order.

    A count that is no number, or a list that is none, is a note and unknown.
    """
    texts: dict[str, str] = {}
    numbers: dict[str, int] = {}
    nodes: dict[int, Node] = {}
    others: dict[str, str] = {}
    notes: list[str] = []
    online: frozenset[int] | None = None
    max_hertz: float | None = None
    promised: int | None = None
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip():
            continue
        if not colon:
            notes.append(f"no key and value: {line.strip()[:80]!r}")
            continue
        node = _NODE.fullmatch(key)
        try:
            if node is not None:
                nodes[int(node[1])] = Node(int(node[1]), parse_cpulist(value))
            elif key == "On-line CPU(s) list":
                online = parse_cpulist(value)
            elif key == "CPU max MHz":
                max_hertz = float(value.replace(",", ".")) * 1e6
            elif key == "NUMA node(s)":
                promised = int(value)
            elif key in _NUMBERS:
                if value != "-":  # Kunpeng's newer hosts count clusters and have no sockets to show
                    numbers[_NUMBERS[key]] = int(value)
            elif key in _TEXTS:
                texts[_TEXTS[key]] = value
            else:
                others[key] = value
        except ValueError:
            notes.append(f"{key}: {value[:80]!r} cannot be read")
    if promised is not None and promised != len(nodes):
        notes.append(f"says {promised} NUMA nodes and lists {len(nodes)}: is the text cut?")
    return Lscpu(
        architecture=texts.get("architecture"),
        vendor=texts.get("vendor"),
        model=texts.get("model"),
        board_model=texts.get("board_model"),
        cpus=numbers.get("cpus"),
        online=online,
        threads_per_core=numbers.get("threads_per_core"),
        cores_per_socket=numbers.get("cores_per_socket"),
        cores_per_cluster=numbers.get("cores_per_cluster"),
        sockets=numbers.get("sockets"),
        clusters=numbers.get("clusters"),
        max_hertz=max_hertz,
        nodes=Nodes(dict(sorted(nodes.items()))),
        others=others,
        notes=tuple(notes),
    )
