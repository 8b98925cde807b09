"""Nodes and NPUs' nodes become samples; no NUMA is said, and a hanging file holds up nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from collectors.host.affinity import Device
from collectors.host.numa import NumaCollector
from collectors.sample import CollectorError, Labels, labels
from sim.host_tree import HostTree

FIRST, SECOND = Device("0", "0", "910B4"), Device("1", "0")


def collect(source: NumaCollector) -> dict[tuple[str, Labels], float]:
    found = {}
    for sample in asyncio.run(source.collect(1.0)):
        assert isinstance(sample.value, float)
        found[sample.name, sample.labels] = sample.value
    return found


def test_nodes_and_npus(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.node(0, "0-23", total_kb=2000, free_kb=500)
    tree.node(6, "")
    tree.device("0000:c1:00.0", 6, "144-167")
    tree.device("0000:c2:00.0", -1, "0-191")
    source = NumaCollector(devices=lambda: {FIRST: "0000:C1:00.0", SECOND: "0000:C2:00.0"}, root=tmp_path)
    found = collect(source)
    node, empty = labels(node="0"), labels(node="6")
    assert found["trimtab_host_numa_node_cpus", node] == 24
    assert found["trimtab_host_numa_node_cpus", empty] == 0
    assert found["trimtab_host_numa_node_memory_total_bytes", node] == 2000 * 1024
    assert found["trimtab_host_numa_node_memory_free_bytes", node] == 500 * 1024
    assert found["trimtab_host_numa_node_memory_file_bytes", node] == 9000 * 1024
    assert found["trimtab_host_numa_node_memory_shared_bytes", node] == 800 * 1024
    assert {key: value for key, value in found.items() if key[0] == "npu_numa_node"} == {
        ("npu_numa_node", FIRST.labels()): 6.0
    }
    assert source.notes == ()


def test_where_sysfs_names_no_node_the_topology_of_npu_smi_does(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.node(0, "0-23")
    tree.node(6, "144-167")
    tree.device("0000:c1:00.0", 6, "144-167")
    tree.device("0000:c2:00.0", -1, "0-191")
    third = Device("2", "0")
    source = NumaCollector(
        devices=lambda: {FIRST: "0000:C1:00.0", SECOND: "0000:C2:00.0"},
        near_cpus=lambda: {FIRST: "0-23", SECOND: "144-167", third: "0-23,144-167"},
        root=tmp_path,
    )
    assert {key[1]: value for key, value in collect(source).items() if key[0] == "npu_numa_node"} == {
        FIRST.labels(): 6.0,
        SECOND.labels(): 6.0,
    }


def test_no_nodes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match=r"no node under /sys/devices/system/node: .* not mounted"):
        collect(NumaCollector(root=tmp_path))


def test_damage_is_a_note_that_goes_with_it(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.node(0, "0-x")
    source = NumaCollector(root=tmp_path)
    assert ("trimtab_host_numa_node_cpus", labels(node="0")) not in collect(source)
    assert list(source.notes) == ["/sys/devices/system/node/node0/cpulist: '0-x' is no range of CPUs"]
    tree.node(0, "0-1")
    collect(source)
    assert list(source.notes) == []


def test_a_reading_that_hangs_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    HostTree(tmp_path).node(0, "0-1")
    mended = threading.Event()
    source = NumaCollector(root=tmp_path)
    real = NumaCollector.read
    monkeypatch.setattr(NumaCollector, "read", lambda self, now: real(self, now) if mended.wait(10) else [])

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await source.collect(1.0)
        with pytest.raises(CollectorError, match="still hangs; does a process hang in the kernel"):
            await source.collect(2.0)
        mended.set()
        assert source._blocking.finished is not None
        await asyncio.to_thread(source._blocking.finished.wait, 10)
        assert await source.collect(3.0)

    asyncio.run(scenario())


def test_this_machine() -> None:
    source = NumaCollector()
    try:
        found = collect(source)
    except CollectorError:
        assert not Path("/sys/devices/system/node/node0").exists()
        return
    total = sum(v for (name, _), v in found.items() if name == "trimtab_host_numa_node_memory_total_bytes")
    assert total > 1e8
    assert source.notes == ()
