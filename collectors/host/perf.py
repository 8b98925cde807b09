"""Stalled cycles of processes, as `perf stat -x,` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CYCLES = "cycles"
STALLED = {"frontend": "stalled-cycles-frontend", "backend": "stalled-cycles-backend"}
"""Kind of stall: no instruction came (frontend), or none could begin because it waited for memory or a unit."""


def perf_command(program: str, pids: Sequence[int], seconds: float) -> tuple[str, ...]:
    """The argument list that counts for `seconds` in these processes and all their threads."""
    events = ",".join((*STALLED.values(), CYCLES))
    wanted = ",".join(str(pid) for pid in pids)
    return (program, "stat", "-x,", "-e", events, "-p", wanted, "--timeout", str(int(seconds * 1000)))


@dataclass(frozen=True, slots=True)
class PerfStat:
    """Counts by event; an event this processor does not count, or may not be asked for, is in `missing`."""

    counts: Mapping[str, float]
    missing: Mapping[str, str]


def parse_perf_stat(text: str) -> PerfStat:
    """Read the lines `value,unit,event,...`; others are messages and left out.

    Source of the format: perf-stat(1), "CSV FORMAT".
    """
    counts: dict[str, float] = {}
    missing: dict[str, str] = {}
    for line in text.splitlines():
        cells = line.split(",")
        if len(cells) < 3:
            continue
        value, event = cells[0].strip(), cells[2].strip().partition(":")[0]
        if event not in (CYCLES, *STALLED.values()):
            continue
        if value.startswith("<"):
            missing[event] = value.strip("<>")
        else:
            try:
                counts[event] = float(value)
            except ValueError:
                missing[event] = f"unreadable: {value[:40]!r}"
    return PerfStat(counts, missing)


def stalled_ratios(found: PerfStat) -> dict[str, float]:
    """The share of cycles in which nothing moved on, by kind; empty while the processes did not run."""
    cycles = found.counts.get(CYCLES, 0.0)
    if cycles <= 0.0:
        return {}
    return {
        kind: min(1.0, found.counts[event] / cycles)
        for kind, event in STALLED.items()
        if event in found.counts
    }
