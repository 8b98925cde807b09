"""Control and compute threads told apart: by name, by process, by CPU use."""

from __future__ import annotations

import pytest

from collectors.host.engine_threads import UNKNOWN, Thread
from daemon.host.thread_kinds import known_threads


def thread(pid: int, tid: int, role: str, name: str = "python3", cpu_seconds: float = 0.0) -> Thread:
    return Thread(pid, tid, role, name, "S", 0, 0, UNKNOWN, cpu_seconds, 100)


def kinds(threads: list[Thread], before: list[Thread] | None = None) -> dict[int, str]:
    found = known_threads(before or [], threads, 1.0)
    return {one.thread.tid: one.kind for one in found}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("acl_thread", "compute"),
        ("release_thread", "control"),
        ("hccl_watchdog", "control"),
        ("pt_autograd_0", "compute"),
    ],
)
def test_a_worker_thread_goes_by_its_name(name: str, kind: str) -> None:
    assert kinds([thread(1, 1, "Worker_TP0"), thread(1, 2, "Worker_TP0", name)])[2] == kind


def test_the_main_thread_of_a_worker_computes_and_the_core_beside_it_controls() -> None:
    threads = [thread(1, 1, "main"), thread(2, 2, "EngineCore"), thread(3, 3, "Worker_TP0")]
    assert kinds(threads) == {1: "control", 2: "control", 3: "compute"}


def test_without_workers_the_core_drives_the_npu_itself() -> None:
    assert kinds([thread(1, 1, "main"), thread(2, 2, "EngineCore")]) == {1: "control", 2: "compute"}


def test_sglang_runs_the_model_in_its_schedulers() -> None:
    threads = [thread(1, 1, "main"), thread(2, 2, "scheduler_TP0"), thread(3, 3, "detokenizer")]
    assert kinds(threads) == {1: "control", 2: "compute", 3: "control"}


def test_a_nameless_thread_goes_by_what_it_takes_between_two_readings() -> None:
    before = [thread(1, 1, "Worker_TP0"), thread(1, 2, "Worker_TP0"), thread(1, 3, "Worker_TP0")]
    after = [
        before[0],
        thread(1, 2, "Worker_TP0", cpu_seconds=0.5),
        thread(1, 3, "Worker_TP0", cpu_seconds=0.01),
    ]
    assert kinds(after, before) == {1: "compute", 2: "compute", 3: "control"}


def test_a_reused_number_has_no_use_yet() -> None:
    old = thread(1, 2, "Worker_TP0", cpu_seconds=0.0)
    new = Thread(1, 2, "Worker_TP0", "python3", "S", 0, 0, UNKNOWN, 9.0, 999)
    (known,) = known_threads([old], [new], 1.0)
    assert known.use is None
    assert not known.certain
