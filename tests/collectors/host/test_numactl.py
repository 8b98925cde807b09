"""`numactl -H` is read with gaps, with trailing blanks and cut."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collectors.host.numactl import MIB, parse_numactl
from tests.prepare import ROOT

TEXT = (ROOT / "tests" / "collectors" / "fixtures" / "host" / "numactl_memory_only.txt").read_text()


def test_nodes_with_a_gap_and_without_cpus() -> None:
    found = parse_numactl(TEXT)
    assert found.notes == ()
    assert list(found.nodes.by_number) == [0, 1, 4]
    assert found.nodes.by_number[4].cpus == frozenset()
    assert found.nodes.by_number[4].free_bytes == 64000 * MIB
    assert found.nodes.by_number[0].total_bytes == 32000 * MIB
    assert (found.distances[0, 4], found.distances[1, 0], found.distances[4, 4]) == (40, 16, 10)


def test_a_cut_text_says_so() -> None:
    found = parse_numactl(TEXT[: TEXT.index("node 1 size")])
    assert found.nodes.by_number[1].total_bytes is None
    assert found.notes == ("says 3 nodes and lists 2: is the text cut?",)
    half = parse_numactl(TEXT.replace("  1:  16  10  40 ", "  1:  16  10").replace("1500 MB", "15OO MB"))
    assert half.notes == (
        "cannot be read: 'node 0 free: 15OO MB'",
        "2 distances under 3 nodes: '1:  16  10'",
    )
    assert half.nodes.by_number[0].free_bytes is None
    assert (1, 0) not in half.distances


def test_the_captured_hosts(corpus: Path) -> None:
    four = parse_numactl((corpus / "cpu" / "numactl_4node_x86.txt").read_text())
    assert four.notes == ()
    assert four.nodes.by_number[3].cpus == frozenset([*range(21, 28), *range(49, 56)])
    assert four.nodes.by_number[2].free_bytes == 15847 * MIB
    assert (four.distances[0, 1], four.distances[0, 3], four.distances[3, 2]) == (21, 31, 21)
    two = parse_numactl((corpus / "cpu" / "numactl_x86_2node.txt").read_text())
    assert two.notes == ()
    assert two.nodes.by_number[1].cpus == frozenset(range(32, 64))
    assert two.nodes.by_number[0].total_bytes == 773271 * MIB
    assert two.distances == {(0, 0): 10, (0, 1): 32, (1, 0): 32, (1, 1): 10}
    one = parse_numactl((corpus / "cpu" / "numactl_1node_vm.txt").read_text())
    assert (one.notes, list(one.nodes.by_number), one.distances) == ((), [0], {(0, 0): 10})
    assert one.nodes.by_number[0].free_bytes == 12797 * MIB


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
def test_no_cut_loses_a_node_in_silence(start: int, end: int) -> None:
    found = parse_numactl(TEXT[min(start, end) : max(start, end)])
    whole = parse_numactl(TEXT)
    for number, node in found.nodes.by_number.items():
        true = whole.nodes.by_number.get(number)
        assert true is not None or found.notes
        assert true is None or node.total_bytes in (None, true.total_bytes)


@given(st.text(max_size=300))
def test_any_text_is_read_or_told(text: str) -> None:
    found = parse_numactl(text)
    assert found.nodes.by_number or found.distances or found.notes or not text.strip() or "node" in text
