"""CPU time of a family of processes as one sum that never falls, whoever of them ends."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.host.tasks import Stat


class CpuTime:
    """Adds up what each process used since it was read before.

    The time of a child that ended is no longer the child's, and its parent's only once the parent has waited for it.
    So it is counted as the child's, and what the parent then has more for it is not counted again.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], Stat] = {}
        self._counted: dict[int, float] = {}
        """Seconds of ended children that are counted and that a process, by its number, may still be given."""
        self._total = 0.0

    def add(self, stats: Iterable[Stat]) -> float:
        """Take a reading of all processes in; the sum in seconds, with all that they used before the first one."""
        now = {(stat.number, stat.start_ticks): stat for stat in stats}
        self._bury([stat for key, stat in self._before.items() if key not in now])
        for key, stat in now.items():
            before = self._before.get(key)
            own, reaped = (0.0, 0.0) if before is None else (before.cpu_seconds, before.reaped_cpu_seconds)
            given = max(stat.reaped_cpu_seconds - reaped, 0.0)
            known = min(given, self._counted.get(stat.number, 0.0))
            if known:
                self._counted[stat.number] -= known
            self._total += max(stat.cpu_seconds - own, 0.0) + given - known
        self._before = now
        return self._total

    def _bury(self, gone: list[Stat]) -> None:
        """Put down what the gone had used to the nearest ancestor that lives."""
        parents = {stat.number: stat.parent for stat in gone}
        used = [(stat.number, stat.cpu_seconds + stat.reaped_cpu_seconds) for stat in gone]
        used += [(pid, self._counted.pop(pid)) for pid in parents if pid in self._counted]
        for pid, seconds in used:
            heir, seen = pid, set[int]()
            while heir in parents and heir not in seen:
                seen.add(heir)
                heir = parents[heir]
            self._counted[heir] = self._counted.get(heir, 0.0) + seconds
        alive = {stat.number for stat in self._before.values()}
        self._counted = {
            pid: seconds for pid, seconds in self._counted.items() if pid in alive - parents.keys()
        }
