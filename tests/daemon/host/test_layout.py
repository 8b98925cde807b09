"""Cores of a node split in two, and the nodes worth a trial."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.host import HostError
from collectors.host.nodes import Node, Nodes
from daemon.host.layout import roomiest, split, usable, worth_a_trial


def test_the_guides_node_gives_96_to_107_and_108_to_119() -> None:
    halves = split(frozenset(range(96, 120)), {}, 4)
    assert halves.control == frozenset(range(96, 108))
    assert halves.compute == frozenset(range(108, 120))


def test_siblings_of_a_core_stay_together() -> None:
    siblings = {cpu: frozenset({cpu % 4, cpu % 4 + 4}) for cpu in range(8)}
    halves = split(frozenset(range(8)), siblings, 0)
    assert halves.control == {0, 1, 4, 5}
    assert halves.compute == {2, 3, 6, 7}


@given(st.sets(st.integers(0, 255), min_size=2), st.integers(1, 4))
def test_halves_share_nothing_and_leave_nothing_out(cpus: set[int], threads: int) -> None:
    cores = {cpu: frozenset(c for c in cpus if c // threads == cpu // threads) for cpu in cpus}
    if len(set(cores.values())) < 2:
        with pytest.raises(HostError, match="need two"):
            split(frozenset(cpus), cores, 0)
        return
    halves = split(frozenset(cpus), cores, 0)
    assert halves.control and halves.compute
    assert halves.whole == cpus
    assert all(not (halves.control & core and halves.compute & core) for core in cores.values())


def test_a_node_of_memory_only_takes_no_threads() -> None:
    with pytest.raises(HostError, match="memory only"):
        usable(Node(8, frozenset()), 8, None)


def test_what_the_control_group_does_not_allow_is_not_used() -> None:
    assert usable(Node(1, frozenset({4, 5, 6})), 1, frozenset({5, 99})) == {5}
    with pytest.raises(HostError, match="cpuset"):
        usable(Node(1, frozenset({4})), 1, frozenset({0}))


def test_nearest_and_roomiest_are_both_worth_a_trial() -> None:
    nodes = Nodes(
        {
            4: Node(4, frozenset({1}), 64.0, 28.0),
            6: Node(6, frozenset({2}), 64.0, 3.0),
            8: Node(8, frozenset(), 64.0, 60.0),  # memory only: the most room, and no CPUs
        }
    )
    assert worth_a_trial(nodes, {6}) == [6, 4]
    assert roomiest(nodes, frozenset({6})) == 6
