"""What reading a big host costs: CPU time of each collector's first pass and of a later one.

python -m bench.host_cost [--threads N] [--json]

A laid tree stands for a host of 320 CPUs, 8 NUMA nodes and 16 NPUs with 5,000 processes; reading its files costs less
than reading those of a real /proc, which the kernel makes anew each time. Hence threads are measured twice: in the
tree, and of a real process with as many threads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from collectors.host.affinity import Device
from collectors.host.engine_pages import EnginePagesCollector
from collectors.host.engine_processes import EngineProcessesCollector
from collectors.host.engine_threads import EngineThreadsCollector
from collectors.host.host_settings import HostSettingsCollector
from collectors.host.interrupts import InterruptsCollector
from collectors.host.numa import NumaCollector
from collectors.host.reading import FilesCollector
from collectors.host.tree import RESCAN_SECONDS, EngineTree
from sim.host_tree import HostTree

CPUS, NODES, WORKERS, STRANGERS, INTERRUPTS = 320, 8, 16, 5000, 4000
MAIN, PASSES = 100_000, 12
SLEEPER = """
import sys, threading
threading.stack_size(65536)
forever = threading.Event()
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=forever.wait, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
"""


def lay(tree: HostTree, threads: int) -> dict[Device, str]:
    """Lay the host; the bus ids of its NPUs."""
    each = CPUS // NODES
    tree.nodes(NODES, each)
    for pid in range(2, 2 + STRANGERS):
        tree.process(pid, f"kworker/{pid}", 2)
    tree.process(MAIN, "vllm")
    bus_ids: dict[Device, str] = {}
    for worker in range(WORKERS):
        pid, node = MAIN + 1000 * (worker + 1), worker % NODES
        tree.process(pid, "VLLM::Worker_TP", MAIN, title=f"VLLM::Worker_TP{worker}")
        own = f"{node * each}-{node * each + each - 1}"
        for number in range(threads // WORKERS):
            tree.thread(pid, pid + number, "python3", cpu=node * each + number % each, allowed=own)
        mapping = f"aaaa{{:08x}} default anon=64 dirty=64 N{node}=64 kernelpagesize_kB=64\n"
        tree.write(f"/proc/{pid}/numa_maps", "".join(mapping.format(line) for line in range(4000)))
        bus_ids[Device(str(worker), "0", "910B")] = f"0000:{worker:02x}:00.0"
        tree.device(f"0000:{worker:02x}:00.0", node, own, range(1000 + worker * 100, 1100 + worker * 100))
    # An interrupt is taken by one CPU, or by a few over time.
    counts = " ".join(f"{7_000_000 if cpu % 100 == 0 else 0:10}" for cpu in range(CPUS))
    tree.write(
        "/proc/interrupts",
        " ".join(f"{f'CPU{cpu}':>10}" for cpu in range(CPUS))
        + "\n"
        + "".join(
            f"{1000 + line}: {counts}   ITS-MSI {line} Edge      nvme{line}\n" for line in range(INTERRUPTS)
        ),
    )
    return bus_ids


def milliseconds(collector: FilesCollector) -> tuple[float, float]:
    """CPU time of the first pass, and the median of later ones."""
    taken = []
    for number in range(PASSES):
        collector.prepare()
        began = time.process_time()
        collector.read(number * RESCAN_SECONDS / (2 * PASSES))
        taken.append((time.process_time() - began) * 1e3)
    return taken[0], median(taken[1:])


@contextmanager
def sleeper(threads: int) -> Iterator[int]:
    """A real process with so many threads; its number."""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", SLEEPER, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        if process.stdin is None or process.stdout is None or not process.stdout.readline():
            raise RuntimeError(f"this machine does not start {threads} threads in a process")
        yield process.pid
        process.stdin.close()


def measure(threads: int) -> Mapping[str, tuple[float, float]]:
    """First and later pass in milliseconds, by what was read."""
    found: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bus_ids = lay(HostTree(root), threads)
        tree = EngineTree(lambda: MAIN)
        for collector in (
            NumaCollector(devices=lambda: bus_ids, root=root),
            EngineProcessesCollector(tree, root=root),
            EngineThreadsCollector(tree, root=root),
            EnginePagesCollector(tree, root=root),
            HostSettingsCollector(root=root),
            InterruptsCollector(devices=lambda: bus_ids, root=root),
        ):
            found[collector.name] = milliseconds(collector)
    with sleeper(threads) as pid:
        found["engine_threads, real"] = milliseconds(EngineThreadsCollector(EngineTree(lambda: pid)))
        found["engine_pages, real"] = milliseconds(EnginePagesCollector(EngineTree(lambda: pid)))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table or, with --json, the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=2000, help="threads of the engine")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args(arguments)
    found = measure(chosen.threads)
    if chosen.json:
        print(
            json.dumps(
                {name: {"first_ms": first, "later_ms": later} for name, (first, later) in found.items()}
            )
        )
        return 0
    print(f"{'CPU time, ms':<24}{'first':>10}{'later':>10}")
    for name, (first, later) in found.items():
        print(f"{name:<24}{first:>10.1f}{later:>10.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
