"""Where the engine's threads may run, where they ran, and what CPU time they took on which NUMA node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.host.files import SystemFiles
from collectors.host.nodes import Nodes, read_nodes
from collectors.host.reading import FilesCollector
from collectors.host.tasks import Allowed, parse_allowed
from collectors.host.tree import EngineTree, Process, read_stat
from collectors.sample import Sample, labels

MAX_THREADS = 8192
"""Threads read in one pass; what is over is noted."""
THREADS_PER_PASS = 1000
"""About 15 ms of CPU time; so is a host of 2,000 threads read in two passes."""
ALLOWED_EVERY = 8
"""A thread's allowed CPUs seldom change and cost as much as all the rest: read anew each so many times."""
UNKNOWN = Allowed(None, None)


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread. `node` is that of the CPU it last ran on; None where unknown."""

    pid: int
    tid: int
    role: str
    name: str
    state: str
    cpu: int
    node: int | None
    allowed: Allowed
    cpu_seconds: float
    start_ticks: int


class ThreadTable:
    """Reads threads pass by pass, and remembers what need not be read each time.

    A thread that is new is read at once; of those known, at most about `THREADS_PER_PASS` are read in a pass, in
    turn, and the others stand as they were read last.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], Thread] = {}
        self._pass = 0

    def read(self, files: SystemFiles, processes: Iterable[Process], nodes: Nodes) -> list[Thread]:
        """Every thread that could be read; one that ended meanwhile is absent."""
        found: dict[tuple[int, str], Thread] = {}
        self._pass += 1
        turns = 1 + len(self._known) // THREADS_PER_PASS
        over = 0
        for process in processes:
            names = files.names(f"/proc/{process.pid}/task")
            room = MAX_THREADS - len(found)
            over += max(0, len(names) - room)
            for name in names[:room]:
                known = self._known.get((process.start_ticks, name))
                thread = known
                turn, rest = divmod(int(name) + self._pass, turns)
                if known is None or rest == 0:
                    kept = known if turn % ALLOWED_EVERY else None
                    thread = self._thread(files, process, name, nodes, kept)
                if thread is not None:
                    found[process.start_ticks, name] = thread
        self._known = found
        if over:
            files.note(f"{over} threads over the limit of {MAX_THREADS} are not read")
        return list(found.values())

    def _thread(
        self, files: SystemFiles, process: Process, name: str, nodes: Nodes, known: Thread | None
    ) -> Thread | None:
        folder = f"/proc/{process.pid}/task/{name}"
        stat = read_stat(files, f"{folder}/stat")
        if stat is None:
            return None
        if known is not None and known.start_ticks == stat.start_ticks:
            allowed = known.allowed
        else:
            allowed = _read_allowed(files, f"{folder}/status")
        return Thread(
            process.pid,
            stat.number,
            process.role,
            stat.name,
            stat.state,
            stat.cpu,
            nodes.of_cpu(stat.cpu),
            allowed,
            stat.cpu_seconds,
            stat.start_ticks,
        )


def _read_allowed(files: SystemFiles, path: str) -> Allowed:
    status = files.text(path)
    if status is None:
        return UNKNOWN
    try:
        return parse_allowed(status)
    except ValueError as failure:
        files.note(f"{path}: {failure}")
        return UNKNOWN


class CpuTimeByNode:
    """Adds up the CPU time of threads by role and by the node they were seen on.

    What a thread used between two passes is given to the node it ran on last: the kernel keeps no more.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], float] | None = None
        self._total: dict[tuple[str, int], float] = defaultdict(float)

    def add(self, threads: Sequence[Thread]) -> Mapping[tuple[str, int], float]:
        """Take a pass in; the sums in seconds since the first pass."""
        before, now = self._before, {}
        for thread in threads:
            key = (thread.tid, thread.start_ticks)
            now[key] = thread.cpu_seconds
            # The first pass begins the count; a thread that came later is counted from its start.
            used = thread.cpu_seconds - before.get(key, 0.0) if before is not None else 0.0
            if thread.node is not None:
                self._total[thread.role, thread.node] += max(0.0, used)
        # One that could not be read this time is not to count from its start when it comes again.
        kept = {**(before or {}), **now}
        self._before = kept if len(kept) < 2 * MAX_THREADS else now
        return self._total


class EngineThreadsCollector(FilesCollector):
    """Reads the engine's threads; `threads` keeps the table of the last pass.

    `npu_nodes` gives, for a process that uses NPUs, the nodes these are attached to.
    """

    name = "engine_threads"

    def __init__(
        self,
        tree: EngineTree,
        *,
        npu_nodes: Callable[[], Mapping[int, frozenset[int]]] = dict,
        root: Path = Path("/"),
        interval_seconds: float = 15.0,
    ) -> None:
        super().__init__(root=root, interval_seconds=interval_seconds)
        self.threads: tuple[Thread, ...] = ()
        self._tree = tree
        self._npu_nodes = npu_nodes
        self._near: Mapping[int, frozenset[int]] = {}
        self._table = ThreadTable()
        self._cpu_time = CpuTimeByNode()

    def prepare(self) -> None:
        """Take what is known of the NPUs now."""
        self._near = self._npu_nodes()

    def read(self, now: float) -> list[Sample]:
        """Read once; no samples while no engine is known."""
        processes = self._tree.processes(self._files, now)
        nodes = read_nodes(self._files) if processes else Nodes({})
        threads = self._table.read(self._files, processes, nodes)
        self.threads = tuple(threads)
        samples = thread_samples(threads, nodes, self._near, now)
        if threads:
            samples += [
                Sample(
                    "trimtab_engine_thread_cpu_seconds_total",
                    seconds,
                    now,
                    labels(process=role, node=str(node)),
                )
                for (role, node), seconds in self._cpu_time.add(threads).items()
            ]
        return samples


def thread_samples(
    threads: Iterable[Thread], nodes: Nodes, npu_nodes: Mapping[int, frozenset[int]], now: float
) -> list[Sample]:
    """Counts by role and node; what is not known of a thread is in no count."""
    on_node: dict[tuple[str, int], int] = defaultdict(int)
    spanning: dict[str, int] = defaultdict(int)
    away: dict[str, int] = defaultdict(int)
    for thread in threads:
        if thread.node is not None:
            on_node[thread.role, thread.node] += 1
            near = npu_nodes.get(thread.pid)
            if near:
                away[thread.role] += thread.node not in near
        if thread.allowed.cpus is not None and nodes.by_number:
            spanning[thread.role] += len(nodes.of_cpus(thread.allowed.cpus)) > 1
    samples = [
        Sample("trimtab_engine_threads", float(count), now, labels(process=role, node=str(node)))
        for (role, node), count in on_node.items()
    ]
    for name, counts in (
        ("trimtab_engine_threads_spanning_nodes", spanning),
        ("trimtab_engine_threads_off_npu_node", away),
    ):
        samples += [Sample(name, float(count), now, labels(process=role)) for role, count in counts.items()]
    return samples
