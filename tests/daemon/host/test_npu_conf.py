"""/etc/npu.conf, where it exists, held against the host."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collectors.host.files import SystemFiles
from daemon.host.npu_conf import read_npu_conf
from sim.host_tree import HostTree

MEMINFO = "MemTotal:       64000000 kB\nHugePages_Total:      512\n"


def keys(root: Path, text: str) -> list[tuple[str, str, str]] | None:
    tree = HostTree(root)
    tree.write("/etc/npu.conf", text)
    tree.write("/proc/meminfo", MEMINFO)
    found = read_npu_conf(SystemFiles(root))
    return None if found is None else [(one.key, one.value, one.verdict) for one in found]


def test_without_the_file_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert read_npu_conf(SystemFiles(tmp_path)) is None


def test_huge_pages_are_held_against_the_kernels(tmp_path: Path) -> None:
    text = "# memory\nhugepages = 1024\nhuge_page_num=512\nhugepage_enable=yes\nlog_level=3\n"
    assert keys(tmp_path, text) == [
        ("hugepages", "1024", "differs"),
        ("huge_page_num", "512", "agrees"),
        ("hugepage_enable", "yes", "unknown"),
    ]


def test_a_dma_buffer_larger_than_the_host_is_noticed(tmp_path: Path) -> None:
    assert keys(tmp_path, "dma_buffer_size=100G\ndma_buf_size: 256MB\n") == [
        ("dma_buffer_size", "100G", "differs"),
        ("dma_buf_size", "256MB", "unknown"),
    ]


@given(st.text(max_size=300))
def test_any_text_is_read_to_its_end(text: str) -> None:
    class Given(SystemFiles):
        def text(self, path: str, max_bytes: int = 0) -> str | None:
            return text if path == "/etc/npu.conf" else MEMINFO

    assert read_npu_conf(Given()) is not None
