"""`lscpu` is read by its keys, in the order and with the words of any version."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collectors.host.lscpu import parse_lscpu
from tests.prepare import ROOT

FIXTURES = ROOT / "tests" / "collectors" / "fixtures" / "host"


def test_a_kunpeng_with_a_node_of_memory_only() -> None:
    found = parse_lscpu((FIXTURES / "lscpu_kunpeng.txt").read_text())
    assert (found.architecture, found.vendor, found.model) == ("aarch64", "HiSilicon", "Kunpeng-920")
    assert found.board_model == "HUAWEI Kunpeng 920 4826"
    assert (found.cpus, found.threads_per_core, found.cores_per_socket, found.sockets) == (128, 1, 64, 2)
    assert found.online == frozenset(range(127))
    assert found.max_hertz == 2.4e9
    assert list(found.nodes.by_number) == [0, 1, 2, 6]
    assert found.nodes.by_number[6].cpus == frozenset()
    assert found.nodes.of_cpu(127) == 2
    assert found.others["L3 cache"] == "128 MiB (4 instances)"
    assert found.notes == ()


def test_clusters_in_the_place_of_sockets() -> None:
    found = parse_lscpu((FIXTURES / "lscpu_clusters.txt").read_text())
    assert (found.sockets, found.clusters, found.cores_per_cluster) == (None, 2, 40)
    assert (found.cores_per_socket, found.threads_per_core, found.cpus) == (None, 2, 160)
    assert found.notes == ()


def test_damage_is_told() -> None:
    text = (FIXTURES / "lscpu_kunpeng.txt").read_text()
    found = parse_lscpu("$ lscpu\n" + text.replace("64-127", "64-l27").replace("NUMA node6", "NUMA nod"))
    assert found.notes == (
        "no key and value: '$ lscpu'",
        "NUMA node2 CPU(s): '64-l27' cannot be read",
        "says 4 NUMA nodes and lists 2: is the text cut?",
    )
    assert parse_lscpu("").nodes.by_number == {}


def test_the_captured_host(corpus: Path) -> None:
    found = parse_lscpu((corpus / "cpu" / "lscpu_kunpeng920_5250_192c_8numa.txt").read_text())
    assert (found.cpus, found.sockets, found.cores_per_socket, found.threads_per_core) == (192, 4, 48, 1)
    assert found.board_model == "HUAWEI Kunpeng 920 5250"
    assert found.max_hertz == 2.6e9
    assert len(found.nodes.by_number) == 8
    assert found.nodes.by_number[6].cpus == frozenset(range(144, 168))
    assert found.nodes.by_number[4].cpus == frozenset(range(96, 120))
    assert found.notes == ()


@given(st.text(max_size=200), st.integers(0, 700))
def test_any_cut_and_any_text_within_is_read_or_told(text: str, at: int) -> None:
    whole = (FIXTURES / "lscpu_kunpeng.txt").read_text()
    found = parse_lscpu(whole[:at] + text + whole[at:])
    true = parse_lscpu(whole)
    if text.isalpha() or not text:
        for number, node in found.nodes.by_number.items():
            assert node.cpus == true.nodes.by_number[number].cpus or found.notes
