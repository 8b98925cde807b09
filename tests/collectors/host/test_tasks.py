"""`stat` and `status` are read whatever a task calls itself."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.host.tasks import Allowed, Resident, parse_allowed, parse_resident, parse_stat
from sim.host_tree import stat_line, status_text


@pytest.mark.parametrize("name", ["acl_thread", "a b", "odd) S 1 (", "(sd-pam)", "", "x\ny"])
def test_a_name_may_hold_anything(name: str) -> None:
    stat = parse_stat(stat_line(731, name, 12, cpu=97, cpu_seconds=2.5, start_ticks=88, state="R"))
    assert (stat.number, stat.name, stat.parent, stat.state) == (731, name, 12, "R")
    assert (stat.cpu, stat.cpu_seconds, stat.start_ticks) == (97, 2.5, 88)


@given(st.text(max_size=15), st.integers(0, 400), st.integers(0, 10**6))
def test_any_name_any_cpu(name: str, cpu: int, start: int) -> None:
    stat = parse_stat(stat_line(5, name, cpu=cpu, start_ticks=start))
    assert (stat.name, stat.cpu, stat.start_ticks) == (name, cpu, start)


@given(st.integers(0, 400))
def test_a_cut_line_is_an_error_or_the_same(at: int) -> None:
    line = stat_line(731, "acl_thread", 12, cpu=97)
    try:
        found = parse_stat(line[:at])
    except ValueError:
        return
    assert found.start_ticks == 100 and found.parent == 12
    assert found.cpu in (97, 9)  # cut within the very last field that is read


def test_garbage_is_an_error() -> None:
    for text in ("", "12 python S 1", "x (y) " + " ".join("a" for _ in range(50))):
        with pytest.raises(ValueError, match=r"no whole stat line|invalid literal"):
            parse_stat(text)


def test_this_thread() -> None:
    tid = threading.get_native_id()
    folder = Path(f"/proc/self/task/{tid}")
    stat = parse_stat((folder / "stat").read_text())
    allowed = parse_allowed((folder / "status").read_text())
    assert (stat.number, stat.parent) == (tid, os.getppid())
    assert stat.cpu_seconds > 0 and stat.threads >= 1 and stat.resident_bytes > 1e6
    assert allowed.cpus == frozenset(os.sched_getaffinity(0))
    assert stat.cpu in allowed.cpus


def test_where_a_task_may_run() -> None:
    allowed = parse_allowed(status_text(cpus="96-107,110", nodes="4"))
    assert allowed == Allowed(frozenset([*range(96, 108), 110]), frozenset({4}))
    assert parse_allowed("Name:\tx\n") == Allowed(None, None)
    with pytest.raises(ValueError, match="no range of CPUs"):
        parse_allowed("Cpus_allowed_list:\t0-\n")


def test_resident_memory() -> None:
    kib = 1024.0
    assert parse_resident(status_text(rss_kb=(5, 6, 7))) == Resident(5 * kib, 6 * kib, 7 * kib)
    assert parse_resident("Name:\tkthreadd\n") is None
