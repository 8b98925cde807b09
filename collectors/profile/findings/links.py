"""How fast the links between ranks are, and whether one is slower than its like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from collectors.profile.findings.finding import Figure, Finding
from collectors.profile.model import Link, RankProfile

SLOW_SHARE = 0.5
LEAST_BYTES = 1e6
LEAST_LINKS = 4
SHOWN = 16


def examine(profiles: Sequence[RankProfile]) -> list[Finding]:
    """Figures of the links, slowest first, and links far below the middle of their transport.

    A link that several profiles list is told by the first one: two runs of one rank are no two links.
    """
    found: dict[tuple[int, int, str], Link] = {}
    for profile in profiles:
        for link in profile.links:
            if link.source != link.target and link.bytes >= LEAST_BYTES and link.bytes_per_second is not None:
                found.setdefault((link.source, link.target, link.transport), link)
    if not found:
        return []
    links = sorted(found.values(), key=_rate)
    shown = [figure for link in links[:SHOWN] for figure in _figures(link)]
    findings = [
        Finding(
            "links",
            "info",
            f"Links between ranks, the slowest {min(SHOWN, len(links))} of {len(links)}",
            "What each link carried by the time it took, and how long one transfer took. In text profiles of "
            "torch_npu a transfer is all that one listed operation sent over the link.",
            tuple(shown),
            None,
        )
    ]
    return findings + _slow(links)


def _slow(links: list[Link]) -> list[Finding]:
    by_transport: dict[str, list[Link]] = defaultdict(list)
    for link in links:
        by_transport[link.transport].append(link)
    findings = []
    for transport, alike in by_transport.items():
        if len(alike) < LEAST_LINKS:
            continue
        middle = median(_rate(link) for link in alike)
        slow = [link for link in alike if _rate(link) < SLOW_SHARE * middle]
        if slow:
            findings.append(
                Finding(
                    "slow_link",
                    "high",
                    f"Slow {transport} links: " + ", ".join(_name(link) for link in slow[:SHOWN]),
                    "Every collective that uses the link takes as long as it does.",
                    (
                        Figure(f"{transport}: the middle link", middle, "bytes per second"),
                        *(figure for link in slow[:SHOWN] for figure in _figures(link)),
                    ),
                    f"{SLOW_SHARE:.0%} of the middle one of at least {LEAST_LINKS} links of its transport",
                    (
                        "HCCS: npu-smi info -t hccs and topo for lanes that are down",
                        "RDMA: hccn_tool -link, -net_health, -optical; PFC and the switch's counters",
                    ),
                )
            )
    return findings


def _rate(link: Link) -> float:
    return link.bytes_per_second or 0.0


def _name(link: Link) -> str:
    return f"{link.source} to {link.target}"


def _figures(link: Link) -> tuple[Figure, ...]:
    name = f"{_name(link)} ({link.transport})"
    return (
        Figure(name, _rate(link), "bytes per second"),
        Figure(f"{name}: mean time", link.seconds / link.count, "seconds"),
        Figure(f"{name}: longest time", link.longest_seconds, "seconds"),
    )
