"""Which page of a process is on which node, in few words: runs of neighbours on one node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from daemon.host.kernel import Addresses, Statuses

Run = tuple[int, int, int]
"""First page (counted from the mapping's start), number of pages, node."""


@dataclass(frozen=True, slots=True)
class PagedRange:
    """A mapping of a process: first address, page size in bytes, number of pages present or not."""

    start: int
    page_bytes: int
    pages: int

    def addresses(self) -> Addresses:
        """The address of each page."""
        return np.uint64(self.start) + np.arange(self.pages, dtype=np.uint64) * np.uint64(self.page_bytes)


def runs_of(statuses: Statuses) -> list[Run]:
    """The runs; a page that is not present belongs to the run it stands in, since nothing is known of it."""
    present = np.flatnonzero(statuses >= 0)
    if len(present) == 0:
        return []
    nodes = statuses[present]
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(nodes)) + 1))
    ends = np.concatenate((firsts[1:], [len(nodes)]))
    return [
        (int(present[first]), int(present[end - 1] - present[first]) + 1, int(nodes[first]))
        for first, end in zip(firsts, ends, strict=True)
    ]


def nodes_of(runs: Iterable[Sequence[int]], pages: int) -> Statuses:
    """The node of each page of a mapping, -1 where no run tells of it."""
    nodes = np.full(pages, -1, dtype=np.int32)
    for first, count, node in runs:
        nodes[max(0, first) : max(0, first + count)] = node
    return nodes


def ranges_of(maps: str) -> dict[int, int]:
    """The end of each mapping by its start, from `/proc/PID/maps`."""
    found = {}
    for line in maps.splitlines():
        start, dash, end = line.partition(" ")[0].partition("-")
        if dash:
            found[int(start, 16)] = int(end, 16)
    return found


def in_parts(mapping: PagedRange, most_pages: int) -> Iterator[PagedRange]:
    """The mapping cut into parts of at most so many pages, so that none costs much memory."""
    for first in range(0, mapping.pages, most_pages):
        yield PagedRange(
            mapping.start + first * mapping.page_bytes,
            mapping.page_bytes,
            min(most_pages, mapping.pages - first),
        )
