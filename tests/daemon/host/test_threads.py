"""Threads of a laid engine put on cores, and put back one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from change.host import HostChange, HostError, HostReading
from collectors.host.binding import parse_binding
from daemon.host.hand import HostHand
from tests.daemon.host.laid import CORE, MAIN, OTHER_WORKER, WORKER, LaidHost

ANYWHERE = frozenset(range(192))
CONTROL, COMPUTE = frozenset(range(96, 108)), frozenset(range(108, 120))


def place(hand: HostHand, value: str) -> HostReading:
    return asyncio.run(hand.apply(HostChange("placement", value)))


def undo_of(hand: HostHand) -> Any:
    return asyncio.run(hand.read("placement")).undo


def test_control_and_compute_threads_get_cores_of_their_own(laid: LaidHost) -> None:
    assert place(laid.hand(), "split:4").value == "split:4"
    now = laid.affinities()
    assert {tid for tid, cpus in now.items() if cpus == COMPUTE} == {WORKER, OTHER_WORKER, 301, 303}
    assert {tid for tid, cpus in now.items() if cpus == CONTROL} == {MAIN, 101, CORE, 302, 304}


def test_other_programs_threads_stay_where_they_are(laid: LaidHost) -> None:
    place(laid.hand(), "whole:4")
    assert laid.affinities()[900] == ANYWHERE


def test_whole_process_binding_uses_every_core_of_the_node(laid: LaidHost) -> None:
    assert place(laid.hand(), "whole:6").value == "whole:6"
    assert laid.affinities()[WORKER] == frozenset(range(144, 168))


def test_each_thread_gets_its_own_cpus_back(laid: LaidHost) -> None:
    laid.kernel.set_affinity(304, frozenset({7, 8}))
    before, hand = laid.affinities(), laid.hand()
    undo = undo_of(hand)
    place(hand, "split:4")
    assert laid.affinities() != before
    reading = asyncio.run(laid.hand().restore("placement", undo))  # by a daemon that started meanwhile
    assert laid.affinities() == before
    assert reading.value == "as_found"


def test_a_thread_born_meanwhile_gets_the_cpus_of_its_process_and_one_that_ended_is_passed_over(
    laid: LaidHost,
) -> None:
    hand = laid.hand()
    undo = undo_of(hand)
    place(hand, "split:4")
    laid.tree.thread(WORKER, 305, "python3", allowed="108-119")  # inherited from the worker
    laid.tree.thread(WORKER, 306, "python3", allowed="3")  # bound by the engine to a core of its choice
    laid.tree.thread(WORKER, 303, "python3", allowed="108-119", start_ticks=777)  # another thread by now
    asyncio.run(hand.restore("placement", undo))
    now = laid.affinities()
    assert (now[305], now[306], now[303]) == (ANYWHERE, frozenset({3}), ANYWHERE)


def test_a_process_that_took_the_number_of_one_that_ended_is_not_touched(laid: LaidHost) -> None:
    hand = laid.hand()
    undo = undo_of(hand)
    place(hand, "split:4")
    laid.tree.process(OTHER_WORKER, "sshd", start_ticks=5555)
    laid.kernel.set_affinity(OTHER_WORKER, COMPUTE)
    asyncio.run(hand.restore("placement", undo))
    assert laid.affinities()[OTHER_WORKER] == COMPUTE


def test_threads_that_outlive_the_engines_main_process_get_their_cpus_back(laid: LaidHost) -> None:
    hand, before = laid.hand(), laid.affinities()
    undo = undo_of(hand)
    place(hand, "split:4")
    laid.main = None
    reading = asyncio.run(hand.restore("placement", undo))
    assert laid.affinities() == before
    assert reading.value is None and "not known" in str(reading.reason)


def test_nothing_is_placed_or_offered_without_an_engine(laid: LaidHost) -> None:
    laid.main = None
    reading = asyncio.run(laid.hand().read("placement"))
    assert (reading.value, reading.undo) == (None, None)
    assert asyncio.run(laid.hand(("placement", "memory", "shared_memory")).choices()) == {}
    with pytest.raises(HostError, match="not known"):
        place(laid.hand(), "split:4")


def test_as_found_is_put_back_by_name_too(laid: LaidHost) -> None:
    hand, before = laid.hand(), laid.affinities()
    undo_of(hand)
    place(hand, "split:6")
    assert place(hand, "as_found").value == "as_found"
    assert laid.affinities() == before


def test_nearest_and_roomiest_nodes_are_offered_and_what_is_in_force_comes_first(laid: LaidHost) -> None:
    choices = asyncio.run(laid.hand(near=(6,)).choices())
    assert choices["placement"] == ("as_found", "split:6", "whole:6", "split:4", "whole:4")


def test_a_node_of_memory_only_and_one_outside_the_cpuset_are_refused(laid: LaidHost) -> None:
    with pytest.raises(HostError, match="memory only"):
        place(laid.hand(), "split:8")
    laid.tree.write("/proc/100/cgroup", "0::/engine\n")
    laid.tree.write("/sys/fs/cgroup/engine/cpuset.cpus.effective", "96-103\n")
    laid.tree.write("/sys/fs/cgroup/engine/cpuset.mems.effective", "4\n")
    with pytest.raises(HostError, match=r"cpuset\.cpus"):
        place(laid.hand(), "split:6")
    place(laid.hand(), "split:4")
    assert laid.affinities()[WORKER] == frozenset(range(100, 104))


def test_what_vllm_ascend_binds_itself_is_respected(laid: LaidHost) -> None:
    laid.binding = parse_binding(
        [
            "INFO [cpu_bind_mode] mode=topo_affinity rank=0 visible_npus=[2]",
            "INFO NPU2: main=[98, 99] acl=[100] release=[101]",
        ]
    )
    before, hand = laid.affinities(), laid.hand()
    assert "placement" not in asyncio.run(hand.choices())
    with pytest.raises(HostError, match="enable_cpu_binding"):
        place(hand, "split:4")
    assert laid.affinities() == before
    assert "topo_affinity" in str(asyncio.run(hand.read("placement")).reason)


def test_so_it_is_where_only_its_threads_tell_of_it(laid: LaidHost) -> None:
    laid.kernel.set_affinity(WORKER, frozenset({98, 99}))
    laid.kernel.set_affinity(301, frozenset({100}))
    with pytest.raises(HostError, match="acl_thread"):
        place(laid.hand(), "split:4")


def test_a_preview_says_who_goes_where_and_changes_nothing(laid: LaidHost) -> None:
    before = laid.affinities()
    control, compute = asyncio.run(laid.hand().preview(HostChange("placement", "split:4")))
    assert control.startswith("5 control threads to CPUs 96-107")
    assert compute.startswith("4 compute threads to CPUs 108-119")
    assert laid.affinities() == before
