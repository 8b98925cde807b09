"""The host lane on real processes of this machine: threads and pages moved, and put back exactly.

Where this machine has one NUMA node, pages are asked for and moved to the node they are on; those of a laid host move
from node to node.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from change import host_steps
from change.host import HostChange
from change.journal import Journal
from daemon.host.files import HostFiles
from daemon.host.hand import HostHand
from daemon.host.kernel import LinuxKernel
from daemon.host.layout import read_siblings, split
from daemon.host.page_runs import PagedRange, ranges_of
from daemon.host.parts import host_hand, kernel_boot_id
from store import open_store
from tests.daemon.host.real_program import HERE, NODE, NODES, Program

pytestmark = pytest.mark.skipif(
    len(HERE) < 2, reason="needs a NUMA node with two CPUs that this test may use"
)


@pytest.fixture
def program() -> Iterator[Program]:
    running = Program()
    yield running
    running.end()


@pytest.fixture
def decoy() -> Iterator[Program]:
    running = Program()
    yield running
    running.end()


@pytest.fixture
def journal() -> Iterator[Journal]:
    store = open_store("sqlite:///:memory:")
    yield Journal(store, "http://127.0.0.1:8000")
    store.close()


def hand_on(program: Program) -> HostHand:
    return host_hand(lambda: program.process.pid, near=lambda pids: (NODE,), reading_seconds=0.2)


def test_threads_are_moved_apart_and_put_back_one_by_one(
    program: Program, decoy: Program, journal: Journal
) -> None:
    os.sched_setaffinity(
        program.tids["tokenizer"], {min(HERE)}
    )  # what the engine chose itself comes back as well
    before, others = program.lasting(), decoy.lasting()
    halves = split(HERE, read_siblings(HostFiles(), HERE), NODE)

    async def scene() -> None:
        change = [HostChange("placement", f"split:{NODE}")]
        entry = await host_steps.change_host(
            hand_on(program), journal, change, boot_id=kernel_boot_id(), kind="manual", actor="test", now=1.0
        )
        assert entry.outcome == "done", entry.reason
        assert program.cpus("acl_thread") == program.cpus("pt_autograd_0") == halves.compute
        assert program.cpus("release_thread") == program.cpus("hccl_watchdog") == halves.control
        assert program.every() <= {halves.control, halves.compute}
        assert decoy.lasting() == others
        entry = await host_steps.rollback_host(
            hand_on(program), journal, 1, 2.0, boot_id=kernel_boot_id(), actor="test"
        )
        assert entry.outcome == "done"

    asyncio.run(scene())
    assert program.lasting() == before
    assert program.every() <= set(before.values())
    assert decoy.lasting() == others


def test_a_daemon_that_died_half_way_is_cleaned_up_after(program: Program, journal: Journal) -> None:
    before = program.lasting()

    async def scene() -> None:
        change = HostChange("placement", f"split:{NODE}")
        await host_steps.begin_trial(
            hand_on(program), journal, [change], boot_id=kernel_boot_id(), actor="test", now=1.0
        )
        await hand_on(program).apply(change)
        assert program.lasting() != before
        await host_steps.recover_host(hand_on(program), journal, 2.0, boot_id=kernel_boot_id())

    asyncio.run(scene())
    assert program.lasting() == before
    assert journal.open_entries("host") == []


def test_the_kernel_says_of_every_page_what_numa_maps_counts(program: Program) -> None:
    pid, kernel = program.process.pid, LinuxKernel()
    ends = ranges_of(Path(f"/proc/{pid}/maps").read_text())
    line = next(
        line
        for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines()
        if "anon=4096" in line  # the 16 MB, unless it was merged with a neighbour
        or int(line.split("anon=")[1].split()[0] if "anon=" in line else 0) > 4000
    )
    start = int(line.split()[0], 16)
    page = os.sysconf("SC_PAGE_SIZE")
    mapping = PagedRange(start, page, (ends[start] - start) // page)
    nodes = kernel.page_nodes(pid, mapping.addresses())
    for number in NODES:
        counted = int(line.split(f" N{number}=")[1].split()[0]) if f" N{number}=" in line else 0
        assert int(np.count_nonzero(nodes == number)) == counted


@pytest.mark.parametrize("knob", ["memory", "shared_memory"])
def test_pages_are_moved_and_put_back_node_by_node(program: Program, knob: str) -> None:
    hand = hand_on(program)

    async def scene() -> None:
        was = await hand.read(knob)
        assert was.undo is not None
        kept = {pid: mappings for pid, _, mappings in was.undo["processes"]}
        assert sum(count for *_, runs in kept[program.process.pid] for _, count, _ in runs) > 200
        for target in NODES:
            assert (await hand.apply(HostChange(knob, f"node:{target}"))).value == f"node:{target}"
        assert (await hand.restore(knob, was.undo)).value == was.value
        now = (await hand.read(knob)).undo
        assert now is not None
        there = {(start, pages): runs for start, _, pages, runs in now["processes"][0][2]}
        for start, _, pages, runs in was.undo["processes"][0][2]:
            if (start, pages) in there:
                nodes = [{node for *_, node in some} for some in (runs, there[start, pages])]
                assert nodes[0] == nodes[1]

    asyncio.run(scene())


def test_settings_of_this_machine_are_read_and_left(program: Program) -> None:
    hand = hand_on(program)
    readings = [asyncio.run(hand.read(knob)) for knob in hand.knobs]
    assert {reading.knob for reading in readings} == set(hand.knobs)
    assert all(reading.value is not None or reading.reason for reading in readings)
