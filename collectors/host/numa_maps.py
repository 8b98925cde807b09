"""On which NUMA nodes a process's pages lie: `/proc/PID/numa_maps` (numa(7)) and `smaps_rollup`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["private", "file", "shared"]

MAX_EXAMPLES = 5

_ON_NODE = re.compile(r" N(\d{1,4})=(\d{1,15})(?= |$)")
_PAGE_SIZE = re.compile(r" kernelpagesize_kB=(\d{1,9})(?= |$)")
_MAPPING = re.compile(r"[0-9a-f]{1,16} \S+")
# The kernel's objects behind shared memory; /dev/zero is a shared mapping without a name.
_SHARED = re.compile(r" file=(?:/dev/shm/|/SYSV|/memfd:|/dev/zero)")
_FILE = re.compile(r" file=")
_ROLLUP = re.compile(r"^(Rss|Pss|Swap|AnonHugePages):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PagesByNode:
    """Bytes of a process by kind and node, and how many lines could not be read.

    `shared` is shared memory (tmpfs, System V, memfd, anonymous and shared), `file` other mapped files,
    `private` the rest: heap, stacks, anonymous and huge pages. A page that several processes map is counted in
    each. A private file mapping counts as `file` with the pages that were written to.
    """

    bytes: Mapping[tuple[Kind, int], float]
    unread: int = 0
    examples: tuple[str, ...] = ()
    """The first of the lines that could not be read, cut short."""


def parse_numa_maps(lines: Iterable[str]) -> PagesByNode:
    """Add up the lines; a line with pages and no page size, or that is no mapping, is counted in `unread`."""
    found: dict[tuple[Kind, int], float] = defaultdict(float)
    unread = 0
    examples: list[str] = []
    for line in lines:
        pages = _ON_NODE.findall(line)
        size = _PAGE_SIZE.search(line)
        if not _MAPPING.match(line) or (pages and size is None):
            if line.strip():
                unread += 1
                if len(examples) < MAX_EXAMPLES:
                    examples.append(line[:80])
            continue
        if not pages or size is None:
            continue
        page_bytes = int(size[1]) * 1024.0
        kind = _kind(line)
        for node, count in pages:
            found[kind, int(node)] += int(count) * page_bytes
    return PagesByNode(dict(found), unread, tuple(examples))


@dataclass(frozen=True, slots=True)
class PlacedMapping:
    """One mapping: first address, kind as in `PagesByNode`, page size in bytes, pages by node."""

    address: int
    kind: Kind
    page_bytes: int
    pages: Mapping[int, int]


def placed_mappings(lines: Iterable[str]) -> Iterator[PlacedMapping]:
    """Each mapping that has pages; lines that cannot be read are passed over, `parse_numa_maps` counts them."""
    for line in lines:
        pages, size = _ON_NODE.findall(line), _PAGE_SIZE.search(line)
        if pages and size is not None and _MAPPING.match(line):
            counts = {int(node): int(count) for node, count in pages}
            yield PlacedMapping(int(line.partition(" ")[0], 16), _kind(line), int(size[1]) * 1024, counts)


def _kind(line: str) -> Kind:
    return "shared" if _SHARED.search(line) else "file" if _FILE.search(line) else "private"


def lines_of(chunks: Iterable[bytes], longest: int = 65536) -> Iterator[str]:
    """Whole lines out of pieces of a file; what is over `longest` bytes of a line is left out."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line[:longest].decode("utf-8", "backslashreplace")
        rest = rest[:longest]
    if rest:
        yield rest.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Rollup:
    """A process's memory as `smaps_rollup` adds it up, in bytes; None is what the kernel does not show.

    `proportional` (PSS) counts a page that n processes map as its n-th part, so it adds up over processes.
    """

    resident: float | None
    proportional: float | None
    swapped: float | None
    huge: float | None
    """Transparent huge pages of private memory."""


def parse_smaps_rollup(text: str) -> Rollup:
    """Read it; what is not there is unknown."""
    kib = {key: float(value) * 1024.0 for key, value in _ROLLUP.findall(text)}
    return Rollup(kib.get("Rss"), kib.get("Pss"), kib.get("Swap"), kib.get("AnonHugePages"))
