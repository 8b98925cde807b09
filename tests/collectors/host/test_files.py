"""What is absent is told apart from what cannot be read, and nothing is read without an end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.host.files import MAX_NOTES, IncompleteError, SystemFiles
from sim.host_tree import HostTree
from tests.prepare import ROOT


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    return HostTree(tmp_path)


def test_absent_is_none_without_a_note(tree: HostTree) -> None:
    files = SystemFiles(tree.root)
    assert files.text("/proc/1/status") is None
    assert files.record("/proc/1/stat") is None
    assert list(files.chunks("/proc/interrupts", 100)) == []
    assert files.names("/proc") == []
    assert files.notes == ()


def test_a_process_that_is_gone_is_absent() -> None:
    files = SystemFiles()
    ended = subprocess.Popen(["true"])
    ended.wait()
    pid = ended.pid
    assert files.text(f"/proc/{pid}/numa_maps") is None
    assert files.notes == ()


def test_what_cannot_be_read_is_noted_once(tree: HostTree) -> None:
    files = SystemFiles(tree.root)
    (tree.root / "sys").mkdir()
    assert files.text("/sys") is None
    assert files.text("/sys") is None
    assert files.record("/sys") is None
    assert list(files.notes) == ["/sys: Is a directory"]
    with pytest.raises(IncompleteError):
        list(files.chunks("/sys", 100))
    files.forget_notes()
    assert list(files.notes) == []


def test_a_file_without_end_is_left(tree: HostTree) -> None:
    tree.write("/proc/long", "x" * 300_000)
    files = SystemFiles(tree.root)
    assert len(files.text("/proc/long") or "") == 300_000
    assert files.text("/proc/long", max_bytes=299_999) is None
    assert files.notes == ("/proc/long is longer than 299999 bytes",)
    with pytest.raises(IncompleteError, match="longer than 1000 bytes"):
        list(files.chunks("/proc/long", 1000))
    assert SystemFiles().text("/dev/zero", max_bytes=5000) is None


def test_a_fifo_in_the_place_of_a_file_does_not_hang(tree: HostTree) -> None:
    os.mkfifo(tree.root / "fifo")
    assert SystemFiles(tree.root).text("/fifo") in ("", None)


def test_a_slow_file_is_left_when_time_is_up(tree: HostTree) -> None:
    tree.write("/proc/7/numa_maps", "x" * 200_000)
    files = SystemFiles(tree.root)
    with pytest.raises(IncompleteError, match="takes too long"):
        list(files.chunks("/proc/7/numa_maps", 1_000_000, lambda: False))
    assert files.notes == ("/proc/7/numa_maps takes too long to read: left after 65536 bytes",)


def test_notes_are_few_and_the_rest_is_counted() -> None:
    files = SystemFiles()
    for pid in range(2000):
        files.note(f"/proc/{pid}/numa_maps: Permission denied")
    assert len(files.notes) == MAX_NOTES
    assert files.notes[-1] == f"and {2000 - MAX_NOTES + 1} more of the kind"


def test_bytes_that_are_no_text_are_kept_legible(tree: HostTree) -> None:
    (tree.root / "cmdline").write_bytes(b"caf\xe9\0")
    assert SystemFiles(tree.root).text("/cmdline") == "caf\\xe9\0"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_told() -> None:
    code = (
        "import os, sys; from collectors.host.files import SystemFiles; os.setgroups([]); os.setgid(65534);"
        "os.setuid(65534); files, owner = SystemFiles(), sys.argv[1];"
        "print(files.text(f'/proc/{owner}/numa_maps'), bool(files.record(f'/proc/{owner}/stat')), files.notes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(os.getpid())], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == f"None True ('/proc/{os.getpid()}/numa_maps: Permission denied',)\n"


@pytest.mark.parametrize(("text", "value"), [("1\n", 1), ("-1\n", -1), ("many", None), ("", None)])
def test_a_number_or_a_note(tree: HostTree, text: str, value: int | None) -> None:
    tree.write("/sys/number", text)
    files = SystemFiles(tree.root)
    assert files.number("/sys/number") == value
    assert files.notes == (() if value is not None else (f"/sys/number: {text!r} is no whole number",))
    assert files.number("/sys/nothing") is None
