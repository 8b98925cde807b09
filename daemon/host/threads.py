"""Puts the engine's threads on cores: control and compute threads apart (`split`), or all on a node (`whole`)."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from change.host import HostError, HostReading
from change.host_knobs import AS_FOUND
from collectors.host.binding import CpuBinding
from collectors.host.cpulist import format_cpulist, parse_cpulist
from collectors.host.engine_threads import Thread
from daemon.host.engine import EngineGone, OwnEngine
from daemon.host.kernel import Kernel, ThreadGone
from daemon.host.layout import Split, read_siblings, split, usable, worth_a_trial
from daemon.host.thread_kinds import KnownThread, known_threads

READING_SECONDS = 1.0
"""Between the two readings that tell which threads are busy."""
_ROUNDS = 5
"""A thread born while others are placed has the old CPUs: look again until none is."""

Key = tuple[int, int]
"""A thread's number and start time."""


class Threads:
    """The knob `placement`.

    `near` gives the nodes of the NPUs, where known; `binding` what vllm-ascend says it bound itself; `pause` lets a
    time pass between two readings.
    """

    knob = "placement"

    def __init__(
        self,
        engine: OwnEngine,
        kernel: Kernel,
        *,
        near: Callable[[], Iterable[int]] = tuple,
        binding: Callable[[], CpuBinding] = lambda: CpuBinding({}),
        pause: Callable[[float], None] = time.sleep,
        reading_seconds: float = READING_SECONDS,
    ) -> None:
        self._engine = engine
        self._kernel = kernel
        self._near = near
        self._binding = binding
        self._pause = pause
        self._seconds = reading_seconds

    def values(self) -> tuple[str, ...]:
        """Both kinds of placement on each node worth a trial; none where the engine binds its threads itself."""
        if self.bound_by_engine() is not None:
            return ()
        found = []
        for number in worth_a_trial(self._engine.nodes(), self._near(), self._engine.allowed().nodes):
            for value in (f"split:{number}", f"whole:{number}"):
                try:
                    self._sets(value)
                except HostError:
                    continue
                found.append(value)
        return tuple(found)

    def read(self, *, undo: bool = True) -> HostReading:
        """Name the placement in force; the undo is every thread's own CPUs. Unknown without an engine."""
        try:
            threads = self._engine.threads()
        except EngineGone as gone:
            return HostReading(self.knob, "engine", None, str(gone))
        now = self._affinities(threads)
        bound = self.bound_by_engine()
        return HostReading(
            self.knob,
            "engine",
            self._name_of(threads, now),
            reason=bound,
            undo=_undo(threads, now) if undo else None,
        )

    def write(self, value: str) -> None:
        """Place every thread; threads that are born meanwhile too."""
        if (bound := self.bound_by_engine()) is not None:
            raise HostError(bound)
        places = self._sets(value)
        known = {_key(one.thread): one for one in self.told_apart()}
        done: dict[Key, frozenset[int]] = {}
        for _ in range(_ROUNDS):
            threads = self._engine.threads()
            new = [thread for thread in threads if _key(thread) not in done]
            if not new:
                return
            for thread in new:
                told = known.get(_key(thread)) or known_threads((), [thread, *threads], 0.0)[0]
                cpus = places.compute if told.kind == "compute" else places.control
                if value.startswith("whole"):
                    cpus = places.whole
                done[_key(thread)] = cpus
                self._place(thread.pid, thread.tid, thread.start_ticks, cpus)

    def restore(self, undo: Mapping[str, Any]) -> None:
        """Give every thread that still lives its CPUs back, and those born since the CPUs of their process.

        Threads that are not found through the engine any more, as where its main process died, are known from the undo.
        """
        members = [
            (pid, tid, start, parse_cpulist(cpus))
            for cpus, threads in undo.get("threads", ())
            for pid, tid, start in threads
        ]
        wanted = {(tid, start): cpus for _, tid, start, cpus in members}
        try:
            listed = self._restore_listed(wanted)
        except EngineGone:
            listed = frozenset()
        for pid, tid, start, cpus in members:
            if (tid, start) not in listed:
                self._place(pid, tid, start, cpus)

    def _restore_listed(self, known: Mapping[Key, frozenset[int]]) -> frozenset[Key]:
        """Restore the threads of the engine's own processes; returns which these were at last."""
        wanted = dict(known)
        ours: set[frozenset[int]] | None = None
        threads: list[Thread] = []
        for _ in range(_ROUNDS):
            threads = self._engine.threads()
            now = self._affinities(threads)
            if ours is None:
                ours = {cpus for key, cpus in now.items() if key in wanted}
            todo = self._to_restore(threads, now, wanted, ours)
            if not todo:
                break
            for thread, cpus in todo:
                wanted.setdefault(_key(thread), cpus)
                self._place(thread.pid, thread.tid, thread.start_ticks, cpus)
        return frozenset(map(_key, threads))

    def preview(self, value: str) -> list[str]:
        """What `write` would do, in words."""
        if (bound := self.bound_by_engine()) is not None:
            return [f"nothing: {bound}"]
        places = self._sets(value)
        told = self.told_apart()
        if value.startswith("whole"):
            return [f"{len(told)} threads to CPUs {format_cpulist(places.whole)}"]
        lines = []
        for kind, cpus in (("control", places.control), ("compute", places.compute)):
            mine = [one for one in told if one.kind == kind]
            names = Counter(f"{one.thread.role}/{one.thread.name}" for one in mine)
            most = ", ".join(
                f"{name} x{count}" if count > 1 else name for name, count in names.most_common(6)
            )
            lines.append(f"{len(mine)} {kind} threads to CPUs {format_cpulist(cpus)}: {most or 'none'}")
        busy = sum((one.use or 0.0) >= 0.5 for one in told if one.kind == "compute")
        if busy > len(places.compute):
            lines.append(
                f"{busy} compute threads are busy and share {len(places.compute)} CPUs: this may be slower"
            )
        return lines

    def told_apart(self) -> list[KnownThread]:
        """The threads by kind, from two readings."""
        before, began = self._engine.threads(), time.monotonic()
        self._pause(self._seconds)
        after = self._engine.threads()
        return known_threads(before, after, max(self._seconds, time.monotonic() - began))

    def compute_cpus(self) -> frozenset[int] | None:
        """The cores that only compute threads use in the placement in force; None if threads are not apart."""
        name = self.read(undo=False).value or AS_FOUND
        return self._sets(name).compute if name.startswith("split") else self._bound_compute()

    def bound_by_engine(self) -> str | None:
        """Why placement is the engine's own matter, None where it is ours."""
        npus = self._binding().npus
        if not npus:
            return self._driver_threads_bound()
        modes = sorted({one.mode for one in npus.values() if one.mode}) or ["unknown"]
        cpus = {number: format_cpulist(one.main) for number, one in npus.items() if one.main}
        where = "; ".join(f"NPU{number} main {text}" for number, text in cpus.items())
        return (
            f"vllm-ascend binds the threads itself (mode {', '.join(modes)}{'; ' + where if where else ''}): to place "
            'them from here, start the engine with additional_config {"enable_cpu_binding": false}'
        )

    def _driver_threads_bound(self) -> str | None:
        """The same without the log: a driver thread on one core that its process's main thread may not use."""
        threads = self._engine.threads()
        for thread in threads:
            main = next((one for one in threads if one.pid == thread.pid == one.tid), None)
            if thread.name.startswith("acl_thread") and main is not None:
                sets = self._affinities([thread, main])
                own, others = sets.get(_key(thread)), sets.get(_key(main))
                if own is not None and others is not None and len(own) == 1 and not own & others:
                    return (
                        f"thread {thread.tid} (acl_thread) is bound to CPU {format_cpulist(own)} on its own: "
                        "vllm-ascend binds the threads itself, as its log would say (collect.logs.engine)"
                    )
        return None

    def _bound_compute(self) -> frozenset[int] | None:
        found: frozenset[int] = frozenset()
        for one in self._binding().npus.values():
            found |= one.main | one.acl
        return found or None

    def _sets(self, value: str) -> Split:
        number = int(value.partition(":")[2])
        nodes = self._engine.nodes()
        cpus = usable(nodes.by_number.get(number), number, self._engine.allowed().cpus)
        if value.startswith("whole"):
            if len(nodes.by_number) == 1:
                raise HostError(f"node {number} is the whole host: there is nothing to bind a process to")
            return Split(cpus, cpus)
        return split(cpus, read_siblings(self._engine.files, cpus), number)

    def _affinities(self, threads: Iterable[Thread]) -> dict[Key, frozenset[int]]:
        found = {}
        for thread in threads:
            try:
                found[_key(thread)] = self._kernel.affinity(thread.tid)
            except ThreadGone:
                continue
        return found

    def _name_of(self, threads: list[Thread], now: Mapping[Key, frozenset[int]]) -> str:
        used = set(now.values())
        if not used or len(used) > 2:
            return AS_FOUND
        told = [one for one in known_threads((), threads, 0.0) if one.certain and _key(one.thread) in now]
        for number in self._engine.nodes().by_number:
            try:
                apart = self._sets(f"split:{number}")
            except HostError:
                continue
            wanted = {"control": apart.control, "compute": apart.compute}
            if used <= set(wanted.values()) and all(now[_key(o.thread)] == wanted[o.kind] for o in told):
                return f"split:{number}"
        return self._whole_of(used)

    def _whole_of(self, used: set[frozenset[int]]) -> str:
        for number in self._engine.nodes().by_number:
            try:
                if used == {self._sets(f"whole:{number}").whole}:
                    return f"whole:{number}"
            except HostError:
                continue
        return AS_FOUND

    def _to_restore(
        self,
        threads: list[Thread],
        now: Mapping[Key, frozenset[int]],
        wanted: Mapping[Key, frozenset[int]],
        ours: set[frozenset[int]],
    ) -> list[tuple[Thread, frozenset[int]]]:
        """The threads that are elsewhere; one born since counts only where it inherited a place from another."""
        theirs: dict[int, Counter[frozenset[int]]] = defaultdict(Counter)
        for thread in threads:
            if _key(thread) in wanted:
                theirs[thread.pid][wanted[_key(thread)]] += 1
        everyone = Counter(wanted.values())
        todo = []
        for thread in threads:
            cpus = wanted.get(_key(thread))
            if cpus is None and now.get(_key(thread)) in ours:
                usual = theirs.get(thread.pid) or everyone
                cpus = usual.most_common(1)[0][0] if usual else None
            if cpus is not None and _key(thread) in now and now[_key(thread)] != cpus:
                todo.append((thread, cpus))
        return todo

    def _place(self, pid: int, tid: int, start_ticks: int, cpus: frozenset[int]) -> None:
        if not self._engine.thread_lives(pid, tid, start_ticks):
            return
        try:
            self._kernel.set_affinity(tid, cpus)
        except ThreadGone:
            return


def _key(thread: Thread) -> Key:
    return thread.tid, thread.start_ticks


def _undo(threads: Iterable[Thread], now: Mapping[Key, frozenset[int]]) -> dict[str, Any]:
    """Threads by their CPUs: thousands of threads have a handful of sets between them."""
    by_cpus: dict[str, list[list[int]]] = defaultdict(list)
    for thread in threads:
        if _key(thread) in now:
            by_cpus[format_cpulist(now[_key(thread)])].append([thread.pid, thread.tid, thread.start_ticks])
    return {"threads": [[cpus, members] for cpus, members in by_cpus.items()]}
