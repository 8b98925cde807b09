"""What `numactl -H` prints: nodes, their CPUs and memory, and the distances between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from collectors.host.nodes import Node, Nodes

MIB = 1024.0 * 1024.0
_AVAILABLE = re.compile(r"available: (\d{1,12}) nodes? \(.*\)")
_CPUS = re.compile(r"node (\d{1,12}) cpus:((?:\s+\d{1,12})*)\s*")
_SIZE = re.compile(r"node (\d{1,12}) (size|free): (\d{1,12}) MB")
_HEADER = re.compile(r"node((?:\s+\d{1,12})+)\s*")
_DISTANCES = re.compile(r"\s*(\d{1,12}):((?:\s+\d{1,12})+)\s*")


@dataclass(frozen=True, slots=True)
class Numactl:
    """One `numactl -H`.

    `distances` are by the two nodes, 10 is the node itself. `notes` are the lines that could not be read and
    what the text says of itself that it does not hold.
    """

    nodes: Nodes
    distances: Mapping[tuple[int, int], int]
    notes: tuple[str, ...] = ()


def parse_numactl(text: str) -> Numactl:
    """Read it; node numbers may have gaps, and a node of memory only has no CPUs. MB is MiB there."""
    nodes: dict[int, Node] = {}
    distances: dict[tuple[int, int], int] = {}
    columns: list[int] = []
    notes: list[str] = []
    promised: int | None = None
    for line in text.splitlines():
        if match := _CPUS.fullmatch(line):
            number = int(match[1])
            cpus = frozenset(int(cpu) for cpu in match[2].split())
            nodes[number] = replace(nodes.get(number, Node(number)), cpus=cpus)
        elif match := _SIZE.fullmatch(line.rstrip()):
            number, size = int(match[1]), int(match[3]) * MIB
            node = nodes.get(number, Node(number))
            nodes[number] = (
                replace(node, total_bytes=size) if match[2] == "size" else replace(node, free_bytes=size)
            )
        elif match := _AVAILABLE.fullmatch(line.strip()):
            promised = int(match[1])
        elif match := _HEADER.fullmatch(line):
            columns = [int(column) for column in match[1].split()]
        elif match := _DISTANCES.fullmatch(line):
            cells = [int(cell) for cell in match[2].split()]
            if len(cells) != len(columns):
                notes.append(f"{len(cells)} distances under {len(columns)} nodes: {line.strip()[:80]!r}")
                continue
            distances.update({(int(match[1]), to): cell for to, cell in zip(columns, cells, strict=True)})
        elif line.strip() and line.strip() != "node distances:":
            notes.append(f"cannot be read: {line.strip()[:80]!r}")
    if promised is not None and promised != len(nodes):
        notes.append(f"says {promised} nodes and lists {len(nodes)}: is the text cut?")
    return Numactl(Nodes(dict(sorted(nodes.items()))), distances, tuple(notes))
