"""Adds up one device's rows, from whichever form they come, into a `RankProfile` of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from collectors.profile.memory_track import MemoryTrack, tracks
from collectors.profile.model import (
    ApiCall,
    Bandwidth,
    Collective,
    Copies,
    Form,
    HitRatio,
    HostOperator,
    Link,
    Operator,
    RankProfile,
    Step,
    Timeline,
    Transfers,
)
from collectors.profile.patterns import FamilyNames, NeighbourCount, Task
from collectors.profile.timeline import Coverage

SMALL_BYTES = 1_000_000
"""A transfer under 1 MB is small: over HCCS and RDMA its set-up weighs as much as its bytes."""
MOST_NAMES = 5_000
"""Distinct names kept of each kind; what comes after is added up under `OTHERS`."""
MOST_STEPS = 10_000
TOTALS_APART = 0.01
OTHERS = "(others)"
COMMUNICATION_CORES = frozenset({"HCCL", "COMMUNICATION"})


class Kernel(NamedTuple):
    """One task of the device. Pipe ratios are 0 to 1, or None where they were not measured."""

    type: str
    core: str
    name: str
    start: int | None
    seconds: float
    inputs: str | None
    outputs: str | None
    mac: float | None
    vec: float | None
    mte2: float | None

    @property
    def computing(self) -> bool:
        """Whether it computes; else it communicates."""
        return self.core not in COMMUNICATION_CORES


@dataclass(slots=True)
class _OperatorSums:
    count: int = 0
    seconds: float = 0.0
    longest: float | None = None
    measured: float = 0.0
    mte2: float = 0.0
    pipe: float = 0.0
    memory_bound: float = 0.0
    compute_bound: float = 0.0


@dataclass(slots=True)
class _Sums:
    """Count, seconds, longest, bytes, and the same of the small ones; and times by name."""

    count: int = 0
    seconds: float = 0.0
    longest: float | None = None
    bytes: float | None = None
    small_count: int = 0
    small_bytes: float = 0.0
    small_seconds: float = 0.0
    other: dict[str, float] = field(default_factory=dict)

    def add(
        self, count: int, seconds: float, size: float | None = None, longest: float | None = None
    ) -> None:
        self.count += count
        self.seconds += seconds
        if size is not None:
            self.bytes = (self.bytes or 0.0) + size
        if longest is not None:
            self.longest = max(self.longest or 0.0, longest)


Sums = TypeVar("Sums")
Key = TypeVar("Key", bound=tuple[object, ...])


def _at(sums: dict[Key, Sums], key: Key, others: Key, new: Callable[[], Sums]) -> Sums:
    """The sums of a key; of `others` when there are too many keys."""
    if (found := sums.get(key)) is not None:
        return found
    return sums.setdefault(key if len(sums) < MOST_NAMES else others, new())


class Gathering:
    """What was read of one device so far."""

    def __init__(self, source: str, form: Form, device: str | None) -> None:
        self.source = source
        self.form: Form = form
        self.device = device
        self.rank: int | None = None
        self.chip: str | None = None
        self._steps: list[Step] = []
        self._steps_left_out = False
        self.notes: list[str] = []
        self._operators: dict[tuple[str, str], _OperatorSums] = {}
        self._communication_seconds = 0.0
        self._families = FamilyNames()
        self._coverage = Coverage()
        self._neighbours = NeighbourCount()
        self._collectives: dict[tuple[str], _Sums] = {}
        self._transfers: dict[tuple[str], _Sums] = {}
        self._links: dict[tuple[int, int, str], _Sums] = {}
        self._apis: dict[tuple[str, str], _Sums] = {}
        self._host: dict[tuple[str], _Sums] = {}
        self._copies: dict[tuple[str], _Sums] = {}
        self._hbm: Bandwidth | None = None
        self._hits: dict[tuple[int | None], list[float]] = {}
        self._memory: dict[str, MemoryTrack] = {}

    @property
    def has_operators(self) -> bool:
        """Whether any compute task was added."""
        return bool(self._operators)

    @property
    def has_transfers(self) -> bool:
        """Whether any transfer was added."""
        return bool(self._transfers)

    @property
    def has_links(self) -> bool:
        """Whether anything on a link was added."""
        return bool(self._links)

    def kernel(self, task: Kernel) -> None:
        """Add a task of the device."""
        if task.computing:
            self._operator(task)
        else:
            self._communication_seconds += task.seconds
        if task.start is not None:
            self._coverage.add(task.start, round(task.seconds * 1e9), task.name, task.computing)
        family = self._families.of(task.type)
        self._neighbours.add(Task(task.type, family, task.seconds, task.inputs, task.outputs))

    def _operator(self, task: Kernel) -> None:
        sums = _at(self._operators, (task.type, task.core), (OTHERS, ""), _OperatorSums)
        sums.count += 1
        sums.seconds += task.seconds
        sums.longest = max(sums.longest or 0.0, task.seconds)
        compute = max(task.mac or 0.0, task.vec or 0.0)
        if task.mte2 is None or (task.mac is None and task.vec is None) or not (compute or task.mte2):
            return
        sums.measured += task.seconds
        sums.mte2 += task.seconds * task.mte2
        sums.pipe += task.seconds * compute
        if task.mte2 > compute:
            sums.memory_bound += task.seconds
        else:
            sums.compute_bound += task.seconds

    def step(self, step: Step) -> None:
        """Add a step of the profiler's own division."""
        if len(self._steps) < MOST_STEPS:
            self._steps.append(step)
        elif not self._steps_left_out:
            self._steps_left_out = True
            self.notes.append(f"{self.source}: only the first {MOST_STEPS} steps were kept")

    def operators(self, type_: str, core: str, count: int, seconds: float, longest: float | None) -> None:
        """Add all runs of an operator type at once, where single tasks are not known."""
        sums = _at(self._operators, (type_, core), (OTHERS, ""), _OperatorSums)
        sums.count += count
        sums.seconds += seconds
        if longest is not None:
            sums.longest = max(sums.longest or 0.0, longest)

    def collective(self, kind: str, elapse: float, transit: float, wait: float, idle: float) -> None:
        """Add one communication operation: times in seconds."""
        sums = _at(self._collectives, (kind,), (OTHERS,), _Sums)
        sums.add(1, elapse, longest=elapse)
        for name, seconds in (("transit", transit), ("wait", wait), ("idle", idle)):
            sums.other[name] = sums.other.get(name, 0.0) + seconds

    def transfer(self, transport: str, count: int, size: float, seconds: float) -> None:
        """Add transfers of `size` bytes each that took `seconds` together."""
        sums = _at(self._transfers, (transport,), (OTHERS,), _Sums)
        sums.add(count, seconds, size * count)
        if size < SMALL_BYTES:
            sums.small_count += count
            sums.small_bytes += size * count
            sums.small_seconds += seconds

    def link(self, source: int, target: int, transport: str, size: float, seconds: float) -> None:
        """Add what went over a link: bytes and seconds of transit."""
        sums = _at(self._links, (source, target, transport), (-1, -1, OTHERS), _Sums)
        sums.add(1, seconds, size, seconds)

    def api(self, level: str, name: str, count: int, seconds: float, longest: float | None) -> None:
        """Add calls of a host interface."""
        _at(self._apis, (level, name), ("", OTHERS), _Sums).add(count, seconds, longest=longest)

    def host_operator(self, name: str, host: float, device: float | None) -> None:
        """Add a framework operator's own host time and device time."""
        sums = _at(self._host, (name,), (OTHERS,), _Sums)
        sums.add(1, host)
        if device is not None:
            sums.other["device"] = sums.other.get("device", 0.0) + device

    def copy(self, direction: str, seconds: float, size: float | None) -> None:
        """Add a copy task of the device."""
        _at(self._copies, (direction,), (OTHERS,), _Sums).add(1, seconds, size)

    def bandwidth(self, found: Bandwidth) -> None:
        """Set the HBM traffic."""
        self._hbm = found

    def hit(self, ratio: float, length: int | None, count: int = 1) -> None:
        """Add the L2 hit ratio of `count` tasks or samples, whose first input has `length` rows."""
        ceiling = None if length is None else 1 << max(length - 1, 0).bit_length()
        for key in {None, ceiling}:
            sums = _at(self._hits, (key,), (None,), lambda: [0.0, 0.0])
            sums[0] += count
            sums[1] += ratio * count

    def memory(self, component: str, time: int, allocated: float | None, reserved: float | None) -> None:
        """Add what a component held at a time (ns), in bytes."""
        if component not in self._memory and len(self._memory) >= MOST_NAMES:
            component = OTHERS
        self._memory.setdefault(component, MemoryTrack(component)).add(time, allocated, reserved)

    def result(self) -> RankProfile:
        """The sums as a profile."""
        timeline = self._timeline()
        return RankProfile(
            self._label(),
            self.source,
            self.form,
            self.rank,
            self.device,
            self.chip,
            _most_first(
                Operator(
                    *key,
                    s.count,
                    s.seconds,
                    s.longest,
                    s.measured,
                    s.mte2,
                    s.pipe,
                    s.memory_bound,
                    s.compute_bound,
                )
                for key, s in self._operators.items()
            ),
            self._communication_seconds,
            timeline,
            self._neighbours.result(),
            tuple(self._steps),
            tuple(
                Collective(
                    kind,
                    s.count,
                    s.seconds,
                    s.longest or 0.0,
                    s.other["transit"],
                    s.other["wait"],
                    s.other["idle"],
                )
                for (kind,), s in sorted(self._collectives.items())
            ),
            tuple(
                Transfers(
                    name, s.count, s.bytes or 0.0, s.seconds, s.small_count, s.small_bytes, s.small_seconds
                )
                for (name,), s in sorted(self._transfers.items())
            ),
            tuple(
                Link(*key, s.count, s.bytes or 0.0, s.seconds, s.longest or 0.0)
                for key, s in sorted(self._links.items())
            ),
            _most_first(ApiCall(*key, s.count, s.seconds, s.longest) for key, s in self._apis.items()),
            tuple(
                HostOperator(name, s.count, s.seconds, s.other.get("device"))
                for (name,), s in sorted(self._host.items(), key=lambda item: -item[1].seconds)
            ),
            _most_first(Copies(name, s.count, s.seconds, s.bytes) for (name,), s in self._copies.items()),
            self._hbm,
            tuple(
                HitRatio(length, total / number, round(number))
                for (length,), (number, total) in sorted(
                    self._hits.items(), key=lambda item: (item[0][0] is not None, item[0][0] or 0)
                )
            ),
            tracks(self._memory),
            tuple(dict.fromkeys(self.notes)),
        )

    def _timeline(self) -> Timeline | None:
        """The tasks' own account of the time, unless the profiler's steps contradict it; then a note says so."""
        if not self._coverage.in_order:
            self.notes.append(
                f"{self.source}: tasks are not in order of their start, so free time and gaps are not known"
            )
        line = self._coverage.result()
        told = [step.computing_seconds for step in self._steps if step.computing_seconds is not None]
        added = sum(sums.seconds for sums in self._operators.values())
        # On several streams at once the tasks add up to more than the time they cover, which is what steps tell.
        covered = added if line is None else line.computing_seconds
        if told and added and not (_near(sum(told), added) or _near(sum(told), covered)):
            self.notes.append(
                f"{self.source}: the tasks add up to {added * 1e6:,.1f} us of computing and the steps to "
                f"{sum(told) * 1e6:,.1f} us: a table is cut, or they do not cover the same time; "
                "gaps between tasks are not told"
            )
            return None
        free = [step.free_seconds for step in self._steps if step.free_seconds is not None]
        if line is not None and free and line.gap_seconds > sum(free) * (1 + TOTALS_APART):
            self.notes.append(
                f"{self.source}: the gaps between tasks are {line.gap_seconds * 1e6:,.1f} us and the steps' free time "
                f"is {sum(free) * 1e6:,.1f} us: the gaps are no idle time of the device and not told"
            )
            return None
        return line

    def _label(self) -> str:
        if self.rank is not None:
            return f"rank {self.rank}"
        return f"device {self.device}" if self.device is not None else Path(self.source).name


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= TOTALS_APART * max(one, other)


class _Timed(Protocol):
    @property
    def seconds(self) -> float: ...


Item = TypeVar("Item", bound=_Timed)


def _most_first(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: -item.seconds))
