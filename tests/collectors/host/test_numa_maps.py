"""Pages are added up by kind and node, in the size the line names."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.host.numa_maps import Rollup, lines_of, parse_numa_maps, parse_smaps_rollup
from tests.prepare import ROOT

TEXT = (ROOT / "tests" / "collectors" / "fixtures" / "host" / "numa_maps.txt").read_text()
KIB = 1024


def test_private_shared_and_files_with_large_pages() -> None:
    found = parse_numa_maps(TEXT.splitlines())
    page = 64 * KIB
    assert found.bytes == {
        ("file", 0): 30 * page,
        ("file", 4): 4 * page + 2 * 2048 * KIB,
        ("private", 4): 1000 * page,
        ("private", 6): (24 + 16 + 2) * page,
        ("shared", 4): 32 * page,
        ("shared", 0): 3 * page,
        ("shared", 6): 5 * page,
    }
    assert found.unread == 0


def test_a_line_without_a_page_size_is_told_not_guessed() -> None:
    found = parse_numa_maps(["7f00 default anon=3 N0=3", "total garbage", "", "7f10 default"])
    assert found.bytes == {}
    assert (found.unread, found.examples) == (2, ("7f00 default anon=3 N0=3", "total garbage"))


def test_a_file_name_cannot_pass_for_pages() -> None:
    # The kernel writes a blank in a name as \040, so that these are parts of the name.
    line = "7f00 default file=/x\\040N3=9\\040kernelpagesize_kB=1 mapped=2 N0=2 kernelpagesize_kB=4"
    assert parse_numa_maps([line]).bytes == {("file", 0): 8.0 * KIB}


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
def test_no_cut_invents_pages(start: int, end: int) -> None:
    whole = parse_numa_maps(TEXT.splitlines()).bytes
    cut = parse_numa_maps(TEXT[min(start, end) : max(start, end)].splitlines())
    assert sum(cut.bytes.values()) <= sum(whole.values())
    assert {node for _, node in cut.bytes} <= {0, 4, 6}


@given(st.text(max_size=200))
def test_any_text_is_read_or_counted(text: str) -> None:
    found = parse_numa_maps(text.splitlines())
    assert found.unread + len(text.splitlines()) >= len(found.bytes)


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_pieces_make_the_same_lines_wherever_they_are_cut(pieces: list[bytes]) -> None:
    text = b"".join(pieces).decode("utf-8", "backslashreplace")
    expected = text.split("\n")
    if not expected[-1]:
        expected.pop()
    assert list(lines_of(pieces)) == expected


def test_a_line_without_end_takes_no_memory_without_end() -> None:
    found = list(lines_of((b"x" * 50_000 for _ in range(100)), longest=60_000))
    assert [len(line) for line in found] == [60_000]


def test_a_rollup() -> None:
    text = "5500-7ffd ---p 00 00:00 0 [rollup]\nRss:     1752 kB\nPss:      299 kB\nPss_Anon:  112 kB\nSwap: 0 kB\n"
    assert parse_smaps_rollup(text) == Rollup(1752.0 * KIB, 299.0 * KIB, 0.0, None)
    assert parse_smaps_rollup("") == Rollup(None, None, None, None)


@pytest.mark.skipif(not Path("/proc/self/numa_maps").exists(), reason="this kernel has no NUMA")
def test_this_process_with_memory_of_each_kind() -> None:
    size = 8 * 1024 * KIB
    data = b"x" * size
    before = parse_numa_maps(Path("/proc/self/numa_maps").read_text().splitlines())
    private = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    private.write(data)
    shared = mmap.mmap(-1, size)
    shared.write(data)
    after = parse_numa_maps(Path("/proc/self/numa_maps").read_text().splitlines())
    private.close()
    shared.close()
    assert before.unread == after.unread == 0
    for kind in ("private", "shared"):
        grown = sum(v for (k, _), v in after.bytes.items() if k == kind) - sum(
            v for (k, _), v in before.bytes.items() if k == kind
        )
        assert grown == pytest.approx(size, rel=0.2), kind


@pytest.mark.skipif(not Path("/proc/self/numa_maps").exists(), reason="this kernel has no NUMA")
def test_a_file_in_shared_memory_is_shared() -> None:
    size = 4 * 1024 * KIB
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        os.truncate(file.name, size)
        mapped = mmap.mmap(file.fileno(), size)
        mapped.write(b"x" * size)
        lines = [line for line in Path("/proc/self/numa_maps").read_text().splitlines() if file.name in line]
        mapped.close()
    assert {kind: size for (kind, _), size in parse_numa_maps(lines).bytes.items()} == {"shared": size}
