"""The engine's processes are found once, and those that end or are not its own are not among them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.host.files import SystemFiles
from collectors.host.tree import RESCAN_SECONDS, EngineTree
from sim.host_tree import HostTree, stat_line

MAIN = 500


@pytest.fixture
def laid(tmp_path: Path) -> HostTree:
    """An API server with an engine core, two workers and a stranger."""
    tree = HostTree(tmp_path)
    tree.process(1, "systemd", 0)
    tree.process(MAIN, "vllm", title="python3\0vllm\0serve")
    tree.process(510, "VLLM::EngineCor", MAIN, title="VLLM::EngineCore")
    tree.process(512, "VLLM::Worker_TP", 510, title="VLLM::Worker_TP0")
    tree.process(511, "VLLM::Worker_TP", 510, title="VLLM::Worker_TP1")
    tree.process(600, "nginx")
    return tree


def found(tree: EngineTree, files: SystemFiles, now: float = 0.0) -> dict[int, str]:
    return {process.pid: process.role for process in tree.processes(files, now)}


def test_all_that_descend_from_the_main_one(laid: HostTree) -> None:
    files = SystemFiles(laid.root)
    assert found(EngineTree(lambda: MAIN), files) == {
        MAIN: "main",
        510: "EngineCore",
        511: "Worker_TP1",
        512: "Worker_TP0",
    }
    assert files.notes == ()
    assert found(EngineTree(lambda: None), files) == {}
    assert found(EngineTree(lambda: 77), files) == {}


def test_a_new_child_is_seen_at_the_next_search(laid: HostTree) -> None:
    files, tree = SystemFiles(laid.root), EngineTree(lambda: MAIN)
    assert len(found(tree, files, 0.0)) == 4
    laid.process(513, "VLLM::Worker_TP", 510, title="VLLM::Worker_TP2")
    assert len(found(tree, files, RESCAN_SECONDS - 1)) == 4
    assert found(tree, files, RESCAN_SECONDS + 1)[513] == "Worker_TP2"


def test_a_process_that_ended_is_gone_at_once(laid: HostTree) -> None:
    files, tree = SystemFiles(laid.root), EngineTree(lambda: MAIN)
    found(tree, files, 0.0)
    shutil.rmtree(laid.root / "proc/511")
    assert sorted(found(tree, files, 1.0)) == [MAIN, 510, 512]


def test_a_number_given_to_another_process_is_not_taken_for_it(laid: HostTree) -> None:
    files, tree = SystemFiles(laid.root), EngineTree(lambda: MAIN)
    found(tree, files, 0.0)
    laid.process(512, "cron", 1, start_ticks=900)
    assert 512 not in found(tree, files, 1.0)


def test_a_zombie_is_no_process(laid: HostTree) -> None:
    laid.process(511, "VLLM::Worker_TP", 510, state="Z")
    assert 511 not in found(EngineTree(lambda: MAIN), SystemFiles(laid.root))


def test_a_damaged_stat_is_noted_and_the_rest_is_found(laid: HostTree) -> None:
    laid.write("/proc/511/stat", "511 (VLLM")
    files = SystemFiles(laid.root)
    assert sorted(found(EngineTree(lambda: MAIN), files)) == [MAIN, 510, 512]
    assert files.notes == ("/proc/511/stat: no whole stat line: '511 (VLLM'",)


def test_a_ring_ends(laid: HostTree) -> None:
    laid.write(f"/proc/{MAIN}/stat", stat_line(MAIN, "vllm", 512))
    assert len(found(EngineTree(lambda: MAIN), SystemFiles(laid.root))) == 4


def test_a_clock_set_back_only_searches_again(laid: HostTree) -> None:
    files, tree = SystemFiles(laid.root), EngineTree(lambda: MAIN)
    found(tree, files, 1000.0)
    laid.process(513, "VLLM::Worker_TP", 510)
    assert 513 in found(tree, files, 10.0)


def test_real_processes() -> None:
    code = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '60']);"
        "print(p.pid, flush=True); sys.stdin.read(); p.kill()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as engine:
        assert engine.stdout is not None and engine.stdin is not None
        child = int(engine.stdout.readline())
        processes = found(EngineTree(lambda: engine.pid), SystemFiles())
        engine.stdin.close()
    assert processes == {engine.pid: "main", child: "sleep"}
