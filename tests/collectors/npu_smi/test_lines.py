"""No line, however long, takes more than a note."""

from __future__ import annotations

import time

import pytest

from collectors.npu_smi.lines import MAX_LINE, numbered
from collectors.npu_smi.paste import parse_paste, parse_topology_paste

MEBIBYTE = 1024 * 1024


def test_lines_are_numbered_stripped_and_bounded() -> None:
    notes: list[str] = []
    text = f"\n  a \n{'x' * (MAX_LINE + 1)}\r\n\tb"
    assert list(numbered(text, notes)) == [(2, "a"), (4, "b")]
    assert notes == [f"line 3: over {MAX_LINE} characters: {'x' * 100}"]


@pytest.mark.parametrize(
    "text",
    [
        "+" + "-" * MEBIBYTE + "x",
        "Process id:1  Process name:x" + " " * MEBIBYTE,
        "\n" * MEBIBYTE,
        "Invalid " + " " * MEBIBYTE + "x",
        "This device does not support querying " + " " * MEBIBYTE + "x",
        "NPU ID" + " " * MEBIBYTE + "x",
        "|" * MEBIBYTE,
        "# " * MEBIBYTE,
        "| npu-smi 1" + " " * MEBIBYTE,
        "NpuID(Idx) " + "a (" * MEBIBYTE,
        "\x1b[" + "1" * MEBIBYTE,
        "ret " * (MEBIBYTE // 4),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_nothing_takes_long(text: str) -> None:
    began = time.process_time()
    for parse in (parse_paste, parse_topology_paste):
        assert parse(text)["error"]
    assert time.process_time() - began < 5.0
