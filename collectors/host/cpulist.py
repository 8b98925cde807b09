"""The kernel's list format of CPUs and NUMA nodes: `0-23,96-119`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

LARGEST = 65536
"""No kernel numbers CPUs this high; a list that does is damaged, and would cost memory without end."""


@lru_cache(maxsize=4096)
def parse_cpulist(text: str) -> frozenset[int]:
    """The numbers of a list; the empty text is the empty set (a node without CPUs).

    `0-10:2/4` are the first 2 of every 4, as the kernel accepts it. Raises ValueError naming the piece that is no
    range. Source of the format: cpuset(7), "List format".
    """
    found: set[int] = set()
    stripped = text.strip()
    for piece in stripped.split(",") if stripped else ():
        span, colon, groups = piece.strip().partition(":")
        low, dash, high = span.partition("-")
        used, slash, group = groups.partition("/")
        numbers = [low, *([high] if dash else []), *([used, group] if colon else [])]
        if (colon and not slash) or not all(part.isascii() and part.isdigit() for part in numbers):
            raise ValueError(f"{piece.strip()[:40]!r} is no range of CPUs")
        first, last = int(low), int(high) if dash else int(low)
        if last < first or last >= LARGEST:
            raise ValueError(f"{piece.strip()[:40]!r} is no range of CPUs below {LARGEST}")
        if not colon:
            found.update(range(first, last + 1))
            continue
        take, every = int(used), int(group)
        if not 0 < take <= every:
            raise ValueError(f"{piece.strip()[:40]!r} takes {take} of every {every}")
        found.update(cpu for cpu in range(first, last + 1) if (cpu - first) % every < take)
    return frozenset(found)


def format_cpulist(cpus: Iterable[int]) -> str:
    """The shortest list of ranges."""
    pieces: list[str] = []
    start = end = -2
    for cpu in [*sorted(set(cpus)), -2]:
        if cpu == end + 1:
            end = cpu
            continue
        if start >= 0:
            pieces.append(str(start) if start == end else f"{start}-{end}")
        start = end = cpu
    return ",".join(pieces)
