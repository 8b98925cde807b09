"""Lays a /proc and a /sys of a host that is not this one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collectors.host.tasks import TICKS


def stat_line(
    number: int,
    name: str,
    parent: int = 1,
    *,
    cpu: int = 0,
    cpu_seconds: float = 0.0,
    start_ticks: int = 100,
    state: str = "S",
    threads: int = 1,
) -> str:
    """One `stat` as the kernel writes it: 52 fields."""
    fields = ["0"] * 53  # by their numbers in the manual, which begin at 1
    fields[3], fields[4], fields[20] = state, str(parent), str(threads)
    fields[14], fields[22] = str(round(cpu_seconds * TICKS)), str(start_ticks)
    fields[24], fields[39] = "2500", str(cpu)
    return f"{number} ({name}) {' '.join(fields[3:])}\n"


def status_text(
    name: str = "python3",
    *,
    cpus: str = "0-191",
    nodes: str = "0-7",
    rss_kb: tuple[int, int, int] = (1000, 200, 30),
) -> str:
    """The lines of `status` that are read, among others."""
    return (
        f"Name:\t{name}\nUmask:\t0022\nState:\tS (sleeping)\nVmRSS:\t{sum(rss_kb):8} kB\n"
        f"RssAnon:\t{rss_kb[0]:8} kB\nRssFile:\t{rss_kb[1]:8} kB\nRssShmem:\t{rss_kb[2]:8} kB\n"
        f"Cpus_allowed:\tffffffff\nCpus_allowed_list:\t{cpus}\n"
        f"Mems_allowed:\t00000000,000000ff\nMems_allowed_list:\t{nodes}\n"
    )


class HostTree:
    """A folder that stands for the root of a host."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        """Put a file at an absolute path of the host."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def node(self, number: int, cpus: str, *, total_kb: int = 64_000_000, free_kb: int = 30_000_000) -> None:
        """A NUMA node; `cpus` is empty for one of memory only."""
        folder = f"/sys/devices/system/node/node{number}"
        self.write(f"{folder}/cpulist", cpus + "\n")
        self.write(
            f"{folder}/meminfo",
            f"\nNode {number} MemTotal:       {total_kb} kB\nNode {number} MemFree:        {free_kb} kB\n"
            f"Node {number} MemUsed:        {total_kb - free_kb} kB\nNode {number} Active(anon):     71 kB\n"
            f"Node {number} FilePages:       9000 kB\nNode {number} Shmem:        800 kB\n"
            f"Node {number} HugePages_Total:     0\n",
        )

    def nodes(self, count: int = 8, cpus_each: int = 24) -> None:
        """Nodes of equal size, numbered as their CPUs are."""
        for number in range(count):
            self.node(number, f"{number * cpus_each}-{(number + 1) * cpus_each - 1}")

    def device(self, bus_id: str, node: int, cpus: str, irqs: Sequence[int] = ()) -> None:
        """A PCI device."""
        folder = f"/sys/bus/pci/devices/{bus_id}"
        self.write(f"{folder}/numa_node", f"{node}\n")
        self.write(f"{folder}/local_cpulist", f"{cpus}\n")
        for irq in irqs:
            self.write(f"{folder}/msi_irqs/{irq}", "msix\n")

    def process(
        self,
        pid: int,
        name: str,
        parent: int = 1,
        *,
        title: str = "",
        start_ticks: int = 100,
        state: str = "S",
    ) -> None:
        """A process and its first thread."""
        self.write(f"/proc/{pid}/stat", stat_line(pid, name, parent, start_ticks=start_ticks, state=state))
        self.write(f"/proc/{pid}/status", status_text(name))
        self.write(f"/proc/{pid}/cmdline", title)
        self.thread(pid, pid, name, start_ticks=start_ticks)

    def thread(
        self,
        pid: int,
        tid: int,
        name: str,
        *,
        cpu: int = 0,
        cpu_seconds: float = 0.0,
        allowed: str = "0-191",
        start_ticks: int = 100,
    ) -> None:
        """A thread, or another reading of one."""
        folder = f"/proc/{pid}/task/{tid}"
        self.write(
            f"{folder}/stat",
            stat_line(tid, name, cpu=cpu, cpu_seconds=cpu_seconds, start_ticks=start_ticks),
        )
        self.write(f"{folder}/status", status_text(name, cpus=allowed))
