"""The engine's memory by node is whole or absent, and takes a bounded time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from collectors.host.engine_pages import MAX_PASS_SECONDS, EnginePagesCollector
from collectors.host.tree import EngineTree
from collectors.sample import Labels, labels
from sim.host_tree import HostTree

MAIN, WORKER = 500, 512
MIB = 1024.0 * 1024.0


@pytest.fixture
def laid(tmp_path: Path) -> HostTree:
    tree = HostTree(tmp_path)
    tree.process(MAIN, "vllm")
    tree.process(WORKER, "VLLM::Worker_TP", MAIN, title="VLLM::Worker_TP0")
    tree.write(f"/proc/{MAIN}/numa_maps", "aa00 default heap anon=16 N0=16 kernelpagesize_kB=64\n")
    tree.write(
        f"/proc/{WORKER}/numa_maps",
        "aa00 default anon=32 N4=16 N6=16 kernelpagesize_kB=64\n"
        "bb00 default file=/dev/shm/psm_1 N4=16 kernelpagesize_kB=64\n",
    )
    tree.write(f"/proc/{WORKER}/smaps_rollup", "Rss: 3072 kB\nPss: 2048 kB\nAnonHugePages: 1024 kB\n")
    return tree


def collect(source: EnginePagesCollector) -> dict[tuple[str, Labels], float]:
    found = {}
    for sample in asyncio.run(source.collect(1.0)):
        assert isinstance(sample.value, float)
        found[sample.name.removeprefix("trimtab_engine_"), sample.labels] = sample.value
    return found


def source(laid: HostTree, clock: Iterator[float] | None = None) -> EnginePagesCollector:
    ticks = clock or iter(lambda: 0.0, None)
    return EnginePagesCollector(EngineTree(lambda: MAIN), root=laid.root, clock=lambda: next(ticks))


def test_memory_by_node(laid: HostTree) -> None:
    collector = source(laid)
    worker = labels(process="Worker_TP0")
    assert collect(collector) == {
        ("memory_on_node_bytes", labels(process="main", kind="private", node="0")): MIB,
        ("memory_on_node_bytes", labels(process="Worker_TP0", kind="private", node="4")): MIB,
        ("memory_on_node_bytes", labels(process="Worker_TP0", kind="private", node="6")): MIB,
        ("memory_on_node_bytes", labels(process="Worker_TP0", kind="shared", node="4")): MIB,
        ("process_proportional_bytes", worker): 2 * MIB,
        ("process_huge_page_bytes", worker): MIB,
    }
    assert collector.notes == ()


def test_a_process_that_may_not_be_read_is_absent_and_told(laid: HostTree) -> None:
    (laid.root / f"proc/{WORKER}/numa_maps").unlink()
    (laid.root / f"proc/{WORKER}/numa_maps").mkdir()  # root may read every file, but not this
    collector = source(laid)
    found = collect(collector)
    assert {dict(own)["process"] for name, own in found if name == "memory_on_node_bytes"} == {"main"}
    assert collector.notes == (f"/proc/{WORKER}/numa_maps: Is a directory",)


def test_one_part_of_a_sum_missing_means_no_sum(laid: HostTree) -> None:
    laid.process(513, "VLLM::Worker_TP", MAIN, title="VLLM::Worker_TP0")
    (laid.root / "proc/513/numa_maps").mkdir()
    found = collect(source(laid))
    assert {dict(own)["process"] for name, own in found if name == "memory_on_node_bytes"} == {"main"}


def test_a_reading_that_takes_too_long_is_left(laid: HostTree) -> None:
    collector = source(laid, (tick * MAX_PASS_SECONDS / 2 for tick in count()))
    found = collect(collector)
    assert {dict(own)["process"] for name, own in found} == {"main"}, "the first was read in time"
    assert collector.notes[0].startswith(f"/proc/{WORKER}/numa_maps takes too long to read")


def test_a_process_of_very_many_pages_is_left_alone(laid: HostTree) -> None:
    stat = laid.root / f"proc/{WORKER}/stat"
    assert " 2500 " in stat.read_text(), "the resident pages"
    stat.write_text(stat.read_text().replace(" 2500 ", " 9000000 "))
    collector = source(laid)
    assert {dict(own)["process"] for _, own in collect(collector)} == {"main"}
    assert collector.notes[0].startswith(f"process {WORKER} holds ")
    assert collector.notes[0].endswith("GB: its pages are too many to be walked")


def test_lines_that_cannot_be_read_are_counted(laid: HostTree) -> None:
    laid.write(f"/proc/{MAIN}/numa_maps", "aa00 default N0=16\nbb00 default N0=1 kernelpagesize_kB=4\n")
    collector = source(laid)
    assert (
        collect(collector)["memory_on_node_bytes", labels(process="main", kind="private", node="0")] == 4096
    )
    assert collector.notes == (f"/proc/{MAIN}/numa_maps: 1 lines cannot be read",)


def test_a_process_gone_meanwhile_is_absent(laid: HostTree) -> None:
    (laid.root / f"proc/{WORKER}/numa_maps").unlink()
    collector = source(laid)
    assert ("memory_on_node_bytes", labels(process="main", kind="private", node="0")) in collect(collector)
    assert collector.notes == ()


@pytest.mark.skipif(not Path("/proc/self/numa_maps").exists(), reason="this kernel has no NUMA")
def test_this_process() -> None:
    found = collect(EnginePagesCollector(EngineTree(os.getpid)))
    total = sum(
        value
        for (name, own), value in found.items()
        if name == "memory_on_node_bytes" and dict(own)["process"] == "main"
    )
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert total == pytest.approx(resident, rel=0.1)
    assert 0 < found["process_proportional_bytes", labels(process="main")] <= resident * 1.1
