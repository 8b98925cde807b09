"""No line, however long, takes more than a note."""

from __future__ import annotations

import time

import pytest

from collectors.hccn import output as hccn
from collectors.lines import MAX_LINE, numbered
from collectors.npu_exporter import report as npu_exporter
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
    for parse in (parse_paste, parse_topology_paste, hccn.report, npu_exporter.report):
        assert parse(text)["error"]
    assert time.process_time() - began < 5.0


HALF = MAX_LINE // 2


@pytest.mark.parametrize(
    "line",
    [
        "@" * 2 * HALF,
        "u@h:" + "@#" * (HALF - 5) + "|",
        "npu-smi  info" * (HALF // 8),
        "# $ > " * (HALF // 4),
        "npu-smi info" + " -a b" * (HALF // 3) + "!",
        "+" + "-" * (2 * HALF - 2) + "x",
        "NpuID(Idx) " + "a" * (2 * HALF - 20),
        "NpuID(Idx) " + "a(" * (HALF - 20),
        "lib" * (HALF // 2),
        "liba.so-" * (HALF // 5),
        "net health status: x" + " " * (2 * HALF - 30) + "y",
        "1" * 2 * HALF,
        "Process id:1 Process name:a" + " " * HALF + "b",
        "a " * HALF,
        "a_" + "1_" * (HALF - 4),
        "a{" + "} " * (HALF - 4),
    ],
    ids=lambda line: repr(line[:16]),
)
def test_a_thousand_lines_of_any_kind_do_not_take_long(line: str) -> None:
    assert len(line) <= MAX_LINE
    text = f"{line}\n" * 1000
    began = time.process_time()
    for parse in (parse_paste, parse_topology_paste, hccn.report, npu_exporter.report):
        parse(text)
    hccn.parse_hccn_conf(text)
    assert time.process_time() - began < 5.0
