"""What is absent is told apart from what cannot be read, and nothing is read without an end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.host.files import MAX_NOTES, IncompleteError, SystemFiles, number
from tests.collectors.host.host_tree import HostTree


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
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
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
    inlet, outlet = os.pipe()
    owner, child = os.getpid(), os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        files = SystemFiles()
        found = files.text(f"/proc/{owner}/numa_maps"), files.record(f"/proc/{owner}/stat") is not None
        os.write(outlet, repr((found, files.notes)).encode())
        os._exit(0)
    os.close(outlet)
    with os.fdopen(inlet) as answer:
        assert answer.read() == repr(((None, True), (f"/proc/{owner}/numa_maps: Permission denied",)))
    os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("text", "value"), [("1\n", 1), ("-1\n", -1), ("", None), (None, None), ("many", None)]
)
def test_a_number(text: str | None, value: int | None) -> None:
    assert number(text) == value
