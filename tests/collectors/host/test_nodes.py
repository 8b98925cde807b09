"""NUMA nodes are read from sysfs, one of memory only included."""

from __future__ import annotations

from pathlib import Path

from collectors.host.files import SystemFiles
from collectors.host.nodes import Node, Nodes, parse_node_meminfo, read_nodes
from sim.host_tree import HostTree

KIB = 1024.0


def test_nodes_with_gaps_and_one_of_memory_only(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.node(0, "0-23", total_kb=1000, free_kb=250)
    tree.node(4, "96-119,200")
    tree.node(9, "")
    tree.write("/sys/devices/system/node/online", "0,4,9\n")
    nodes = read_nodes(SystemFiles(tmp_path))
    assert list(nodes.by_number) == [0, 4, 9]
    assert nodes.by_number[0] == Node(0, frozenset(range(24)), 1000 * KIB, 250 * KIB, 9000 * KIB, 800 * KIB)
    assert nodes.by_number[9].cpus == frozenset()
    assert nodes.of_cpu(200) == 4
    assert nodes.of_cpu(24) is None
    assert nodes.of_cpus(frozenset({3, 100, 24})) == {0, 4}
    assert nodes.of_cpus(frozenset()) == frozenset()


def test_what_is_missing_is_unknown_and_damage_is_noted(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.write("/sys/devices/system/node/node1/cpulist", "24-x\n")
    files = SystemFiles(tmp_path)
    assert read_nodes(files).by_number == {1: Node(1)}
    assert files.notes == ("/sys/devices/system/node/node1/cpulist: '24-x' is no range of CPUs",)
    assert read_nodes(SystemFiles(tmp_path / "nowhere")) == Nodes({})


def test_meminfo_has_only_what_is_in_kilobytes() -> None:
    text = "Node 3 MemFree:  12 kB\nNode 3 Active(file):  2 kB\nNode 3 HugePages_Free:  4\ngarbage\n"
    assert parse_node_meminfo(text) == {"MemFree": 12 * KIB, "Active(file)": 2 * KIB}


def test_this_machines_nodes() -> None:
    files = SystemFiles()
    nodes = read_nodes(files)
    assert files.notes == ()
    for node in nodes.by_number.values():
        assert node.total_bytes is not None and node.free_bytes is not None
        assert 0 <= node.free_bytes <= node.total_bytes
