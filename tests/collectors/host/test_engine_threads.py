"""Threads are counted on the node they ran on, their CPU time goes there, and a pass stays cheap."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from collectors.host import engine_threads
from collectors.host.engine_threads import ALLOWED_EVERY, EngineThreadsCollector, ThreadTable
from collectors.host.files import SystemFiles
from collectors.host.nodes import read_nodes
from collectors.host.tree import EngineTree
from sim.host_tree import HostTree

MAIN, WORKER = 500, 512


@pytest.fixture
def laid(tmp_path: Path) -> HostTree:
    """Eight nodes of 24 CPUs, and a worker with an NPU at node 4."""
    tree = HostTree(tmp_path)
    tree.nodes(8, 24)
    tree.process(MAIN, "vllm")
    tree.process(WORKER, "VLLM::Worker_TP", MAIN, title="VLLM::Worker_TP0")
    tree.thread(WORKER, WORKER, "VLLM::Worker_TP", cpu=97, cpu_seconds=10.0, allowed="96-117")
    tree.thread(WORKER, 513, "acl_thread", cpu=118, cpu_seconds=5.0, allowed="118")
    tree.thread(WORKER, 514, "hccl_watchdog", cpu=3, cpu_seconds=1.0, allowed="0-191")
    return tree


def collector(laid: HostTree) -> EngineThreadsCollector:
    return EngineThreadsCollector(
        EngineTree(lambda: MAIN), npu_nodes=lambda: {WORKER: frozenset({4})}, root=laid.root
    )


def collect(source: EngineThreadsCollector, now: float = 1.0) -> dict[tuple[str, str, str], float]:
    found = {}
    for sample in asyncio.run(source.collect(now)):
        pairs = dict(sample.labels)
        assert isinstance(sample.value, float)
        found[sample.name.removeprefix("trimtab_engine_"), pairs["process"], pairs.get("node", "")] = (
            sample.value
        )
    return found


def test_threads_by_node(laid: HostTree) -> None:
    found = collect(collector(laid))
    assert found["threads", "Worker_TP0", "4"] == 2
    assert found["threads", "Worker_TP0", "0"] == 1
    assert found["threads_off_npu_node", "Worker_TP0", ""] == 1
    assert found["threads_spanning_nodes", "Worker_TP0", ""] == 1
    assert ("threads_off_npu_node", "main", "") not in found, "it uses no NPU"


def test_the_table_has_each_thread(laid: HostTree) -> None:
    source = collector(laid)
    collect(source)
    watchdog = next(thread for thread in source.threads if thread.name == "hccl_watchdog")
    assert (watchdog.pid, watchdog.tid, watchdog.role) == (WORKER, 514, "Worker_TP0")
    assert (watchdog.cpu, watchdog.node, watchdog.cpu_seconds) == (3, 0, 1.0)
    assert watchdog.allowed.cpus == frozenset(range(192))
    assert watchdog.allowed.nodes == frozenset(range(8))


def test_cpu_time_goes_to_the_node_where_it_was_seen(laid: HostTree) -> None:
    source = collector(laid)
    first = collect(source)
    assert first["thread_cpu_seconds_total", "Worker_TP0", "4"] == 0.0, "what was before is not of this time"
    laid.thread(WORKER, WORKER, "VLLM::Worker_TP", cpu=98, cpu_seconds=13.0, allowed="96-117")
    laid.thread(WORKER, 514, "hccl_watchdog", cpu=120, cpu_seconds=1.5)
    laid.thread(WORKER, 515, "new", cpu=99, cpu_seconds=0.25)
    second = collect(source, 2.0)
    assert second["thread_cpu_seconds_total", "Worker_TP0", "4"] == pytest.approx(3.25)
    assert second["thread_cpu_seconds_total", "Worker_TP0", "5"] == pytest.approx(0.5)
    assert second["thread_cpu_seconds_total", "Worker_TP0", "0"] == 0.0
    shutil.rmtree(laid.root / f"proc/{WORKER}/task/515")
    assert collect(source, 3.0)["thread_cpu_seconds_total", "Worker_TP0", "4"] == pytest.approx(3.25)


def test_time_is_not_counted_twice_after_a_damaged_reading(laid: HostTree) -> None:
    source = collector(laid)
    collect(source)
    laid.write(f"/proc/{WORKER}/task/513/stat", "garbage")
    collect(source, 2.0)
    laid.thread(WORKER, 513, "acl_thread", cpu=118, cpu_seconds=5.5)
    assert collect(source, 3.0)["thread_cpu_seconds_total", "Worker_TP0", "4"] == pytest.approx(0.5)


def test_a_number_used_again_is_another_thread(laid: HostTree) -> None:
    source = collector(laid)
    collect(source)
    laid.thread(WORKER, 513, "young", cpu=118, cpu_seconds=0.5, allowed="0-23", start_ticks=777)
    found = collect(source, 2.0)
    assert found["thread_cpu_seconds_total", "Worker_TP0", "4"] == pytest.approx(0.5)
    young = next(thread for thread in source.threads if thread.name == "young")
    assert young.allowed.cpus == frozenset(range(24))


def test_without_nodes_nothing_is_said_of_nodes(laid: HostTree) -> None:
    shutil.rmtree(laid.root / "sys")
    source = collector(laid)
    assert collect(source) == {}
    assert len(source.threads) == 4


def test_a_thread_that_is_damaged_or_gone_is_not_counted(laid: HostTree) -> None:
    laid.write(f"/proc/{WORKER}/task/513/stat", "garbage")
    laid.write(f"/proc/{WORKER}/task/514/status", "Cpus_allowed_list:\tnone\n")
    (laid.root / f"proc/{WORKER}/task/516").mkdir()
    source = collector(laid)
    found = collect(source)
    assert found["threads", "Worker_TP0", "4"] == 1
    assert found["threads_spanning_nodes", "Worker_TP0", ""] == 0
    assert sorted(source.notes) == [
        f"/proc/{WORKER}/task/513/stat: no whole stat line: 'garbage'",
        f"/proc/{WORKER}/task/514/status: 'none' is no range of CPUs",
    ]


def test_threads_over_the_limit_are_told(laid: HostTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_threads, "MAX_THREADS", 3)
    source = collector(laid)
    collect(source)
    assert len(source.threads) == 3
    assert source.notes == ("1 threads over the limit of 3 are not read",)


def test_many_threads_are_read_in_turn(laid: HostTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_threads, "THREADS_PER_PASS", 2)
    files, tree, table = SystemFiles(laid.root), EngineTree(lambda: MAIN), ThreadTable()
    nodes, processes = read_nodes(files), tree.processes(files, 0.0)
    for thread in table.read(files, processes, nodes):
        laid.thread(thread.pid, thread.tid, thread.name, cpu=50, allowed="48-71")
    moved = [sum(t.cpu == 50 for t in table.read(files, processes, nodes)) for _ in range(4)]
    assert moved[0] < 4 and moved[-1] == 4
    for _ in range(3 * ALLOWED_EVERY):
        threads = table.read(files, processes, nodes)
    assert {thread.allowed.cpus for thread in threads} == {frozenset(range(48, 72))}


def test_no_engine_no_samples(laid: HostTree) -> None:
    source = EngineThreadsCollector(EngineTree(lambda: None), root=laid.root)
    assert collect(source) == {}
    assert source.threads == ()


def test_this_process_and_a_busy_thread() -> None:
    source = EngineThreadsCollector(EngineTree(os.getpid))
    collect(source)
    began = time.thread_time()
    while time.thread_time() - began < 0.15:
        sum(range(1000))
    found = collect(source, 2.0)
    used = sum(value for (name, _, _), value in found.items() if name == "thread_cpu_seconds_total")
    assert 0.1 <= used < 60
    tids = {thread.tid for thread in source.threads if thread.pid == os.getpid()}
    assert threading.get_native_id() in tids
    allowed = next(thread.allowed.cpus for thread in source.threads if thread.tid == os.getpid())
    assert allowed == frozenset(os.sched_getaffinity(0))
