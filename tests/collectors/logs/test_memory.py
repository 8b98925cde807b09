"""Every figure of an out-of-memory error, exactly, and nothing that is not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.memory import OutOfMemory, parse_out_of_memory

MIB, GIB = 2**20, 2**30


def test_all_figures() -> None:
    line = (
        "RuntimeError: NPU out of memory. Tried to allocate 48.00 MiB (NPU 2; 30.50 GiB total capacity; "
        "20.25 GiB already allocated; 20.75 GiB current active; 512.00 KiB free; 1.00 TiB reserved in total by "
        "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb"
    )
    assert parse_out_of_memory(line) == OutOfMemory(
        2, 48 * MIB, 30.5 * GIB, 20.25 * GIB, 20.75 * GIB, 512 * 1024, 1024 * GIB
    )


def test_the_allocator_of_workspaces_says_it_in_other_words() -> None:
    line = (
        "RuntimeError: NPU out of memory. NPUWorkspaceAllocator tried to allocate 2.00 GiB(NPU 1; 60.00 GiB total "
        "capacity; 1.50 GiB free). If you want to reduce memory usage, set TASK_QUEUE_ENABLE=1."
    )
    assert parse_out_of_memory(line) == OutOfMemory(1, 2 * GIB, 60 * GIB, free_bytes=1.5 * GIB)


def test_what_was_left_out_is_unknown() -> None:
    line = "NPU out of memory. Tried to allocate 512 bytes (NPU 0; 30.00 GiB total capacity; ...; 9.00 MiB free ...)"
    found = parse_out_of_memory(line)
    assert found == OutOfMemory(0, 512, 30 * GIB, None, None, 9 * MIB, None)
    assert found.figures() == {"requested_bytes": 512, "capacity_bytes": 30 * GIB, "free_bytes": 9 * MIB}
    assert parse_out_of_memory("NPU out of memory.") == OutOfMemory()


@pytest.mark.parametrize("line", ["", "CUDA out of memory. Tried to allocate 2.00 GiB", "all is well"])
def test_other_lines_have_none(line: str) -> None:
    assert parse_out_of_memory(line) is None


@pytest.mark.parametrize("size", ["-1.00 GiB", "nan GiB", "1.00 GB", "1,5 GiB", "GiB", "1.00 GiBs"])
def test_a_figure_that_cannot_be_read_is_unknown(size: str) -> None:
    found = parse_out_of_memory(f"NPU out of memory. Tried to allocate {size} (NPU 0; {size} total capacity)")
    assert found == OutOfMemory(0)


@given(st.text())
def test_any_text(text: str) -> None:
    found = parse_out_of_memory(f"NPU out of memory. Tried to allocate {text}")
    assert found is not None
    assert all(value >= 0 for value in found.figures().values())
