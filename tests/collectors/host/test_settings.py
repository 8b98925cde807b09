"""The kernel's settings are read where this kernel has them, and are unknown where not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.host.files import SystemFiles
from collectors.host.settings import (
    Cpuset,
    HugePages,
    Sysctl,
    parse_choice,
    parse_groups,
    read_cpuset,
    read_governors,
    read_huge_pages,
    read_sysctl,
)
from sim.host_tree import HostTree


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    return HostTree(tmp_path)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("always [madvise] never\n", "madvise"),
        ("always defer [defer+madvise] madvise never", "defer+madvise"),
        ("[always] madvise never", "always"),
        ("always madvise never", None),
        ("", None),
    ],
)
def test_the_word_in_brackets(text: str, word: str | None) -> None:
    assert parse_choice(text) == word


def test_huge_pages(tree: HostTree) -> None:
    folder = "/sys/kernel/mm/transparent_hugepage"
    tree.write(f"{folder}/enabled", "[always] madvise never\n")
    tree.write(f"{folder}/khugepaged/defrag", "0\n")
    assert read_huge_pages(SystemFiles(tree.root)) == HugePages("always", None, False)
    tree.write(f"{folder}/defrag", "always madvise\n")
    files = SystemFiles(tree.root)
    assert read_huge_pages(files).defrag is None
    assert files.notes == (f"{folder}/defrag: no word is chosen in 'always madvise'",)
    assert read_huge_pages(SystemFiles(tree.root / "nowhere")) == HugePages(None, None, None)


def test_governors_by_policy(tree: HostTree) -> None:
    folder = "/sys/devices/system/cpu/cpufreq"
    for policy, cpus, governor in (
        (0, "0 1 2 3", "performance"),
        (4, "4 5", "ondemand"),
        (6, "6", "performance"),
    ):
        tree.write(f"{folder}/policy{policy}/affected_cpus", cpus + "\n")
        tree.write(f"{folder}/policy{policy}/scaling_governor", governor + "\n")
    tree.write(f"{folder}/policy8/affected_cpus", "8 x\n")
    tree.write(f"{folder}/policy8/scaling_governor", "performance\n")
    tree.write(f"{folder}/policy9/affected_cpus", "9\n")
    tree.write(f"{folder}/boost", "1\n")
    files = SystemFiles(tree.root)
    assert read_governors(files) == {"performance": frozenset({0, 1, 2, 3, 6}), "ondemand": frozenset({4, 5})}
    assert files.notes == (f"{folder}/policy8/affected_cpus: 'x' is no range of CPUs",)
    assert read_governors(SystemFiles(tree.root / "nowhere")) == {}


def test_settings_of_an_old_and_a_new_kernel(tree: HostTree) -> None:
    tree.write("/proc/sys/vm/swappiness", "10\n")
    tree.write("/proc/sys/kernel/numa_balancing", "1\n")
    tree.write("/proc/sys/kernel/sched_migration_cost_ns", "500000\n")
    assert read_sysctl(SystemFiles(tree.root)) == Sysctl(1, 10, 0.0005)
    (tree.root / "proc/sys/kernel/sched_migration_cost_ns").unlink()
    assert read_sysctl(SystemFiles(tree.root)) == Sysctl(1, 10, None)
    tree.write("/sys/kernel/debug/sched/migration_cost_ns", "250000\n")
    assert read_sysctl(SystemFiles(tree.root)) == Sysctl(1, 10, 0.00025)


def test_groups_of_both_versions() -> None:
    assert parse_groups("3:cpuset:/docker/ab\n4:cpu,cpuacct:/x:y\n0::/init.scope\nnonsense\n") == {
        "cpuset": "/docker/ab",
        "cpu": "/x:y",
        "cpuacct": "/x:y",
        "": "/init.scope",
    }


def test_a_cpuset_of_version_2_is_the_nearest_groups(tree: HostTree) -> None:
    tree.write("/proc/77/cgroup", "0::/kube/pod1/engine\n")
    tree.write("/sys/fs/cgroup/kube/pod1/engine/cgroup.procs", "77\n")
    tree.write("/sys/fs/cgroup/kube/pod1/cpuset.cpus.effective", "96-119\n")
    tree.write("/sys/fs/cgroup/kube/pod1/cpuset.mems.effective", "4\n")
    tree.write("/sys/fs/cgroup/cpuset.cpus.effective", "0-191\n")
    found = read_cpuset(SystemFiles(tree.root), 77)
    assert found == Cpuset("/kube/pod1", frozenset(range(96, 120)), frozenset({4}))


def test_a_cpuset_of_version_1_also_where_the_mount_begins_at_the_container(tree: HostTree) -> None:
    tree.write("/proc/77/cgroup", "5:memory:/docker/ab\n3:cpuset:/docker/ab\n0::/\n")
    tree.write("/proc/self/cgroup", "3:cpuset:/docker/ab\n")
    tree.write("/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-23\n")
    tree.write("/sys/fs/cgroup/cpuset/cpuset.effective_mems", "0-1\n")
    assert read_cpuset(SystemFiles(tree.root), 77) == Cpuset("/", frozenset(range(24)), frozenset({0, 1}))
    tree.write("/sys/fs/cgroup/cpuset/docker/ab/cpuset.effective_cpus", "5\n")
    assert read_cpuset(SystemFiles(tree.root), 77) == Cpuset("/docker/ab", frozenset({5}), None)


def test_the_cpuset_of_another_container_is_not_taken_for_the_engines(tree: HostTree) -> None:
    tree.write("/proc/self/cgroup", "3:cpuset:/docker/sidecar\n0::/\n")
    tree.write("/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-23\n")
    tree.write("/sys/fs/cgroup/cpuset.cpus.effective", "0-23\n")
    for group in ("/../engine", "/..", "/engine"):
        tree.write("/proc/77/cgroup", f"3:cpuset:/docker/engine\n0::{group}\n")
        assert read_cpuset(SystemFiles(tree.root), 77) is None


def test_no_controller_is_no_cpuset(tree: HostTree) -> None:
    tree.write("/proc/77/cgroup", "0::/engine\n")
    assert read_cpuset(SystemFiles(tree.root), 77) is None
    assert read_cpuset(SystemFiles(tree.root), 78) is None


def test_this_machine() -> None:
    files = SystemFiles()
    assert (read_sysctl(files).swappiness or 0) in range(201)
    read_huge_pages(files)
    read_governors(files)
    cpuset = read_cpuset(files)
    if cpuset is not None and cpuset.cpus is not None:
        assert os.sched_getaffinity(0) <= cpuset.cpus
    assert files.notes == ()
