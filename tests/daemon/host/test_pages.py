"""Pages of a laid engine moved to a node and back, page by page."""

from __future__ import annotations

import asyncio
import shutil
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.host import HostChange, HostError, HostReading
from daemon.host import pages
from daemon.host.hand import HostHand
from daemon.host.page_runs import nodes_of, runs_of
from tests.daemon.host.laid import CORE, MAIN, OTHER_WORKER, WORKER, LaidHost


def move(hand: HostHand, knob: str, value: str) -> HostReading:
    return asyncio.run(hand.apply(HostChange(knob, value)))


def test_private_pages_move_and_shared_and_file_pages_stay(laid: LaidHost) -> None:
    assert move(laid.hand(), "memory", "node:4").value == "node:4"
    assert laid.kernel.nodes_of(WORKER) == [4] * 6 + [6] * 3 + [0, 0]


def test_every_page_goes_back_to_the_node_it_was_on(laid: LaidHost) -> None:
    before, hand = laid.kernel.nodes_of(WORKER), laid.hand()
    undo = asyncio.run(hand.read("memory")).undo
    assert undo is not None
    move(hand, "memory", "node:4")
    reading = asyncio.run(laid.hand().restore("memory", undo))
    assert laid.kernel.nodes_of(WORKER) == before
    assert reading.value == "as_found"


def test_shared_memory_is_offered_off_a_full_node_only(laid: LaidHost) -> None:
    assert asyncio.run(laid.hand().choices())["shared_memory"] == ("node:6", "node:4")
    laid.tree.node(6, "144-167", free_kb=30_000_000)
    assert "shared_memory" not in asyncio.run(laid.hand().choices())


def test_shared_memory_moves_alone(laid: LaidHost) -> None:
    assert move(laid.hand(), "shared_memory", "node:4").value == "node:4"
    assert laid.kernel.nodes_of(WORKER) == [6, 6, 6, 2, 2, 6, 4, 4, 4, 0, 0]


def test_pages_that_a_driver_holds_are_seen_in_the_reading(laid: LaidHost) -> None:
    laid.kernel.pinned = {0x10000, 0x11000, 0x13000}
    assert move(laid.hand(), "memory", "node:4").value == "as_found"


def test_a_node_without_room_is_refused_with_the_figures(laid: LaidHost) -> None:
    laid.tree.node(4, "96-119", free_kb=1000)
    with pytest.raises(HostError, match=r"node 4 has 0\.0 GB free"):
        move(laid.hand(), "memory", "node:4")
    assert "node:4" not in asyncio.run(laid.hand().choices()).get("memory", ())


def test_a_node_outside_of_the_control_group_is_refused(laid: LaidHost) -> None:
    laid.tree.write("/proc/100/cgroup", "0::/engine\n")
    laid.tree.write("/sys/fs/cgroup/engine/cpuset.cpus.effective", "0-191\n")
    laid.tree.write("/sys/fs/cgroup/engine/cpuset.mems.effective", "6\n")
    with pytest.raises(HostError, match=r"cpuset\.mems"):
        move(laid.hand(), "memory", "node:4")


def test_interleaved_memory_is_left_alone(laid: LaidHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_RUNS", 3)
    reading = asyncio.run(laid.hand().read("memory"))
    assert reading.undo is None
    assert "interleaved" in str(reading.reason)


def test_pages_the_kernel_does_not_tell_of_are_not_moved(laid: LaidHost) -> None:
    laid.kernel.hidden = {0x10000, 0x11000}
    reading = asyncio.run(laid.hand().read("memory"))
    assert reading.undo is None
    assert "numa_balancing=0 first" in str(reading.reason)


def test_a_process_that_took_the_number_of_one_that_ended_is_not_touched(laid: LaidHost) -> None:
    hand = laid.hand()
    undo = asyncio.run(hand.read("memory")).undo
    assert undo is not None
    move(hand, "memory", "node:4")
    laid.tree.process(WORKER, "sshd", start_ticks=4242)
    asyncio.run(hand.restore("memory", undo))
    assert laid.kernel.nodes_of(WORKER)[:6] == [4] * 6


def test_a_preview_warns_of_what_moves_pages_back(laid: LaidHost) -> None:
    lines = asyncio.run(laid.hand().preview(HostChange("memory", "node:4")))
    assert any("from node 6 to node 4" in line for line in lines)
    assert any("numa_balancing" in line for line in lines)


@given(st.lists(st.integers(-2, 3), max_size=200))
def test_runs_tell_the_node_of_every_page_that_is_present(statuses: list[int]) -> None:
    there = np.array(statuses, dtype=np.int32)
    runs = runs_of(there)
    back = nodes_of(runs, len(there))
    assert all(back[i] == node for i, node in enumerate(statuses) if node >= 0)
    assert len(runs) <= 1 + sum(a != b for a, b in pairwise(statuses))


def test_the_pages_of_an_engine_that_is_gone_are_unknown_and_their_way_back_is_no_failure(
    laid: LaidHost,
) -> None:
    hand = laid.hand()
    undo = asyncio.run(hand.read("memory")).undo
    assert undo is not None
    laid.main = None
    for pid in (MAIN, CORE, WORKER, OTHER_WORKER):
        shutil.rmtree(laid.tree.root / f"proc/{pid}")
    reading = asyncio.run(hand.restore("memory", undo))
    assert reading.value is None and "not known" in str(reading.reason)
    assert asyncio.run(hand.read("shared_memory")).value is None
