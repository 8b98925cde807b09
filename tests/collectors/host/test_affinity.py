"""An NPU's node is read of its PCI device or of the topology's column, and never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.host.affinity import Device, affinity_from_topology, pci_address, read_affinity
from collectors.host.files import SystemFiles
from collectors.host.nodes import Node, Nodes
from sim.host_tree import HostTree

FIRST, SECOND, THIRD = Device("0", "0", "910B4"), Device("1", "0", "910B4"), Device("2", "0")
NODES = Nodes({n: Node(n, frozenset(range(n * 24, n * 24 + 24))) for n in range(8)})


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("81:00.0", "0000:81:00.0"),
        ("NA", None),
        ("-", None),
        ("0000:C1:00", None),
        ("../../etc", None),
    ],
)
def test_a_bus_id_as_sysfs_names_it(bus_id: str, address: str | None) -> None:
    assert pci_address(bus_id) == address


def test_the_node_is_that_of_the_device_not_of_its_number(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.device("0000:c1:00.0", 6, "144-167")
    found = read_affinity(SystemFiles(tmp_path), {FIRST: "0000:C1:00.0"})
    assert [(one.device, one.node, one.cpus, one.source) for one in found] == [
        (FIRST, 6, frozenset(range(144, 168)), "sysfs")
    ]


def test_minus_one_is_unknown_and_the_list_of_all_cpus_with_it(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.device("0000:c1:00.0", -1, "0-191")
    files = SystemFiles(tmp_path)
    found = read_affinity(files, {FIRST: "0000:C1:00.0", SECOND: "0000:C2:00.0", THIRD: "NA"})
    assert [(one.device, one.node, one.cpus) for one in found] == [(FIRST, None, None), (SECOND, None, None)]
    assert files.notes == ()


def test_the_topologys_column() -> None:
    columns = {FIRST: "144-167", SECOND: "0-23,48-71", THIRD: ""}
    found = {one.device: one for one in affinity_from_topology(columns, NODES)}
    assert (found[FIRST].node, found[FIRST].cpus) == (6, frozenset(range(144, 168)))
    assert found[SECOND].node is None
    assert found[SECOND].cpus == frozenset(range(24)) | frozenset(range(48, 72))
    assert (found[THIRD].node, found[THIRD].cpus) == (None, None)
    with pytest.raises(ValueError, match="CPU affinity of NPU 0 chip 0: 'PHB' is no range"):
        affinity_from_topology({FIRST: "PHB"}, NODES)


def test_labels_hold_what_is_known() -> None:
    assert FIRST.labels() == (("chip", "0"), ("name", "910B4"), ("npu", "0"))
    assert THIRD.labels() == (("chip", "0"), ("npu", "2"))
