"""A host of 8 nodes with 24 CPUs each, two engine workers on it, cards 0-1 at node 6 and 2-3 at node 4."""

from __future__ import annotations

from pathlib import Path

from collectors.host.binding import CpuBinding
from daemon.host.engine import FIRST_NAMESPACE
from daemon.host.hand import HostHand
from daemon.host.parts import host_hand
from sim.host_kernel import LaidKernel
from sim.host_tree import HostTree, stat_line

MAIN, CORE, WORKER, OTHER_WORKER = 100, 200, 300, 400
ALL_KNOBS = (
    "placement", "memory", "shared_memory", "transparent_hugepages", "khugepaged_defrag", "cpu_governor",
    "irq_placement", "numa_balancing", "swappiness", "sched_migration_cost_ns", "hugepages",
)  # fmt: skip
CARDS = {"0000:c1:00.0": (6, "144-167"), "0000:c2:00.0": (6, "144-167"), "0000:81:00.0": (4, "96-119")}


class LaidHost:
    """The tree, its kernel, and a hand on both."""

    def __init__(self, root: Path) -> None:
        self.tree = HostTree(root)
        self.kernel = LaidKernel(root)
        self.pauses = 0
        self.main: int | None = MAIN
        self.binding = CpuBinding({})
        self._nodes()
        self._engine()
        self._settings()
        self.namespace(FIRST_NAMESPACE)

    def hand(self, allowed: tuple[str, ...] = ALL_KNOBS, near: tuple[int, ...] = (4, 6)) -> HostHand:
        """A hand that has seen nothing yet, as after a restart of Trimtab."""
        return host_hand(
            lambda: self.main,
            root=self.tree.root,
            kernel=self.kernel,
            allowed=allowed,
            near=lambda pids: near,
            binding=lambda: self.binding,
            pause=self._pause,
            reading_seconds=1.0,
        )

    def text(self, path: str) -> str:
        """What a file of the host holds."""
        return (self.tree.root / path.lstrip("/")).read_text().strip()

    def affinities(self) -> dict[int, frozenset[int]]:
        """Every thread's CPUs."""
        tids = [int(path.name) for path in (self.tree.root / "proc").glob("[0-9]*/task/*")]
        return {tid: self.kernel.affinity(tid) for tid in tids}

    def namespace(self, name: str) -> None:
        """Let Trimtab run in this process namespace."""
        link = self.tree.root / "proc/self/ns/pid"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(name)

    def work(self, pid: int, tid: int, name: str, seconds: float) -> None:
        """Let a thread have taken so much CPU time until now; its CPUs stay."""
        self.tree.write(f"/proc/{pid}/task/{tid}/stat", stat_line(tid, name, cpu_seconds=seconds))

    def _pause(self, seconds: float) -> None:
        self.pauses += 1
        self.work(WORKER, 303, "python3", 10.0 + self.pauses * 0.9 * seconds)

    def _nodes(self) -> None:
        self.tree.nodes(8, 24)
        self.tree.node(4, "96-119", free_kb=28_000_000)
        self.tree.node(6, "144-167", free_kb=3_000_000)
        for number in (0, 1, 2, 3, 5, 7):
            first = number * 24
            self.tree.node(number, f"{first}-{first + 23}", free_kb=9_000_000)
        self.tree.node(8, "", free_kb=60_000_000)
        for bus_id, (node, cpus) in CARDS.items():
            self.tree.device(bus_id, node, cpus)

    def _engine(self) -> None:
        tree = self.tree
        tree.process(MAIN, "vllm", title="python3\0/usr/bin/vllm\0serve\0/model\0")
        tree.thread(MAIN, 101, "tokenizer")
        tree.process(CORE, "VLLM::EngineCore", MAIN, title="VLLM::EngineCore\0")
        tree.process(WORKER, "VLLM::Worker_TP", CORE, title="VLLM::Worker_TP0\0")
        tree.thread(WORKER, 301, "acl_thread")
        tree.thread(WORKER, 302, "release_thread")
        tree.thread(WORKER, 303, "python3", cpu_seconds=10.0)
        tree.thread(WORKER, 304, "python3", cpu_seconds=1.0)
        tree.process(OTHER_WORKER, "VLLM::Worker_TP", CORE, title="VLLM::Worker_TP1\0")
        tree.process(900, "sshd", title="sshd\0")
        # Private pages on a node of 3 GB free, a few elsewhere; one segment of shared memory.
        self.kernel.map(WORKER, 0x10000, [6, 6, -1, 6, 2, 2, 6])
        self.kernel.map(WORKER, 0x90000, [6, 6, 6], "file=/dev/shm/psm_1 dirty=3")
        self.kernel.map(WORKER, 0xF0000, [0, 0], "file=/usr/lib/libc.so.6 mapped=2")
        for pid in (MAIN, CORE, OTHER_WORKER):
            self.kernel.map(pid, 0x10000, [6])

    def _settings(self) -> None:
        write = self.tree.write
        write("/proc/sys/kernel/random/boot_id", "b00t-1\n")
        write("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
        write("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "1\n")
        for policy, governor in ((0, "schedutil"), (24, "ondemand")):
            folder = f"/sys/devices/system/cpu/cpufreq/policy{policy}"
            write(f"{folder}/scaling_governor", f"{governor}\n")
            write(f"{folder}/scaling_available_governors", "performance schedutil ondemand\n")
        write("/proc/sys/kernel/numa_balancing", "1\n")
        write("/proc/sys/vm/swappiness", "60\n")
        write("/proc/sys/vm/nr_hugepages", "0\n")
        write("/sys/kernel/debug/sched/migration_cost_ns", "500000\n")
        for irq, cpus in ((24, "0-191"), (25, "144-167"), (26, "108-119"), (27, "0-23")):
            write(f"/proc/irq/{irq}/smp_affinity_list", f"{cpus}\n")
