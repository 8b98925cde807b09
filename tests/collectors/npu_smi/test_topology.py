"""The matrix of ways between devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.npu_smi.topology import parse_topology

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"
MATRIX = """
           NPU0       NPU1       CPU Affinity
NPU0       X          HCCS       144-167
NPU1       HCCS       X          96-119
"""


def test_ways_and_near_cpus() -> None:
    topology = parse_topology(MATRIX)
    assert topology.devices == ("NPU0", "NPU1")
    assert topology.links == {("NPU0", "NPU1"): "HCCS", ("NPU1", "NPU0"): "HCCS"}
    assert topology.cpus == {"NPU0": tuple(range(144, 168)), "NPU1": tuple(range(96, 120))}
    assert topology.notes == ()


def test_physical_ids_a_nic_and_an_unknown_way() -> None:
    topology = parse_topology((FIXTURES / "topo_phy_nic.txt").read_text())
    assert topology.devices == ("Phy-ID8", "Phy-ID9", "NIC0")
    assert topology.links["Phy-ID8", "NIC0"] == "PIX"
    assert ("Phy-ID9", "NIC0") not in topology.links, "NA is no way"
    assert set(topology.cpus) == {"Phy-ID8", "Phy-ID9"}
    assert topology.notes == ()


def test_without_affinity() -> None:
    topology = parse_topology("NPU0 NPU1\nNPU0 X UB\nNPU1 UB X\n")
    assert (len(topology.links), topology.cpus, topology.notes) == (2, {}, ())


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("NPU1       HCCS       X          96-119", "NPU1   HCCS", "line 4: does not fit the header"),
        ("NPU1       HCCS       X          96-119", "", "no row for NPU1"),
        ("96-119", "96-x", "CPU affinity is '96-x'"),
        ("X          HCCS", "HCCS       X", "line 3: does not fit the header"),
        ("NPU1       HCCS", "NPU1       SYS", "NPU0 to NPU1 is HCCS, but back it is SYS"),
        ("NPU1       HCCS", "NPU7       HCCS", "line 4: not a row of the matrix"),
        ("NPU1       HCCS       X          96-119", "NPU1 = lost", "line 4: does not fit the header"),
        ("NPU1       HCCS       X          96-119", "error = lost", "line 4: not a row of the matrix"),
        ("NPU1       HCCS       X          96-119", "NPU4 = lost", "line 4: not a row of the matrix"),
    ],
)
def test_damage_is_told(old: str, new: str, note: str) -> None:
    assert any(note in one for one in parse_topology(MATRIX.replace(old, new)).notes)


@given(st.integers(0, len(MATRIX)), st.integers(0, 30), st.text("NPU0123 X-\n", max_size=8))
def test_any_damage_is_read_or_told_and_no_way_is_made_up(at: int, gone: int, put: str) -> None:
    topology = parse_topology(MATRIX[:at] + put + MATRIX[at + gone :])
    words = (MATRIX[:at] + put + MATRIX[at + gone :]).split()
    assert all(way in words for way in topology.links.values())
