"""What one rank's profile says, whichever form it was written in: times in seconds, sizes in bytes, shares 0 to 1.

Everything here is a sum over a stream of rows, so that a profile of any size has a model of bounded size. What a
profile does not hold is None or empty, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["text", "db"]


@dataclass(frozen=True, slots=True)
class Operator:
    """All runs of one operator type on one kind of core.

    `measured_seconds` is the time of the runs whose pipes were measured. Parts of it: `mte2_seconds`, in which the
    pipe that loads from memory was busy; `pipe_seconds`, in which the busier one of the cube and vector pipes was;
    `memory_bound_seconds`, of the runs where the former was more than the latter; `compute_bound_seconds`, of the
    other runs.
    """

    type: str
    core: str
    count: int
    seconds: float
    longest_seconds: float | None
    measured_seconds: float
    mte2_seconds: float
    pipe_seconds: float
    memory_bound_seconds: float
    compute_bound_seconds: float

    @property
    def mean_seconds(self) -> float:
        """How long one run takes."""
        return self.seconds / self.count


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which the device ran nothing, and the task that ended it."""

    seconds: float
    before: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """How the device's time was covered from its first task to its last one.

    `exposed_communication_seconds` is communication that no computing covered; `gap_count` and `gap_seconds` are
    of the gaps of at least `collectors.profile.timeline.HOST_GAP_SECONDS`.
    """

    span_seconds: float
    computing_seconds: float
    exposed_communication_seconds: float
    free_seconds: float
    gap_count: int
    gap_seconds: float
    longest_gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Operators that ran one right after the other in a known unfused pattern."""

    pattern: str
    count: int
    seconds: float
    example: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step as the profiler itself divided it (step_trace_time)."""

    name: str
    computing_seconds: float | None
    communication_seconds: float | None
    exposed_communication_seconds: float | None
    overlapped_seconds: float | None
    free_seconds: float | None
    stage_seconds: float | None
    bubble_seconds: float | None
    preparing_seconds: float | None


@dataclass(frozen=True, slots=True)
class Collective:
    """All runs of one kind of communication operation, as `hcom_allReduce`."""

    kind: str
    count: int
    elapse_seconds: float
    longest_seconds: float
    transit_seconds: float
    wait_seconds: float
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class Transfers:
    """All transfers of one transport (HCCS, RDMA, copies ...), and how much of them is small.

    Small is under `collectors.profile.gathering.SMALL_BYTES` apiece.
    """

    transport: str
    count: int
    bytes: float
    seconds: float
    small_count: int
    small_bytes: float
    small_seconds: float


@dataclass(frozen=True, slots=True)
class Link:
    """What went from one rank to another one over one transport; `seconds` of transit, over `count` entries."""

    source: int
    target: int
    transport: str
    count: int
    bytes: float
    seconds: float
    longest_seconds: float

    @property
    def bytes_per_second(self) -> float | None:
        """What the link carried by the time it took; None if it took none."""
        return self.bytes / self.seconds if self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class ApiCall:
    """All calls of one host interface at one level (acl, runtime, node, ...)."""

    level: str
    name: str
    count: int
    seconds: float
    longest_seconds: float | None


@dataclass(frozen=True, slots=True)
class HostOperator:
    """One framework operator: its own time on the host and the device time below it."""

    name: str
    count: int
    host_seconds: float
    device_seconds: float | None


@dataclass(frozen=True, slots=True)
class Copies:
    """Copy tasks on the device; `direction` is the profile's own word, as `HostToDevice`, or `unknown`."""

    direction: str
    count: int
    seconds: float
    bytes: float | None


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """HBM traffic over the samples of a profile, all memory units together, in bytes per second."""

    read: float
    write: float
    peak: float | None


@dataclass(frozen=True, slots=True)
class HitRatio:
    """L2 hits of the runs whose first input has `length` rows, up to the next power of two; None is all runs."""

    length: int | None
    ratio: float
    count: int


@dataclass(frozen=True, slots=True)
class MemorySpan:
    """The most that a component held in one stretch of time; None where the profile does not say."""

    start_seconds: float
    allocated_bytes: float | None
    reserved_bytes: float | None


@dataclass(frozen=True, slots=True)
class MemoryComponent:
    """What one component held over time; each span lasts `span_seconds`."""

    name: str
    span_seconds: float
    spans: tuple[MemorySpan, ...]
    peak_allocated_bytes: float | None
    peak_reserved_bytes: float | None
    fragmentation_ratio: float | None


@dataclass(frozen=True, slots=True)
class RankProfile:
    """One rank's profile in one form; `label` is how findings name it.

    `notes` say what could not be read, where, and what to do.
    """

    label: str
    source: str
    form: Form
    rank: int | None
    device: str | None
    chip: str | None
    operators: tuple[Operator, ...]
    communication_task_seconds: float
    timeline: Timeline | None
    neighbours: tuple[Neighbours, ...]
    steps: tuple[Step, ...]
    collectives: tuple[Collective, ...]
    transfers: tuple[Transfers, ...]
    links: tuple[Link, ...]
    apis: tuple[ApiCall, ...]
    host_operators: tuple[HostOperator, ...]
    copies: tuple[Copies, ...]
    hbm: Bandwidth | None
    l2: tuple[HitRatio, ...]
    memory: tuple[MemoryComponent, ...]
    notes: tuple[str, ...]

    @property
    def computing_seconds(self) -> float:
        """The time of all compute tasks, one after the other."""
        return sum(operator.seconds for operator in self.operators)

    @property
    def compute_tasks(self) -> int:
        """How many tasks computed."""
        return sum(operator.count for operator in self.operators)

    @property
    def usable(self) -> bool:
        """Whether anything was read that a finding can stand on."""
        return any(
            (self.operators, self.steps, self.collectives, self.links, self.apis, self.host_operators)
        ) or any((self.copies, self.hbm, self.l2, self.memory, self.transfers))
