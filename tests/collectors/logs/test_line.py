"""Wrappers come off, lines are cut, and records that share a line are parted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.line import MAX_LINE, Unwrapped, bounded, level_named, lines_of, unwrap


@pytest.mark.parametrize(
    ("raw", "unwrapped"),
    [
        ("plain text", Unwrapped("plain text")),
        ("(EngineCore pid=42) INFO", Unwrapped("INFO", "EngineCore", 42)),
        ("(Worker_DP0_TP7 pid=42) ERROR", Unwrapped("ERROR", "Worker_DP0_TP7", 42)),
        ("(Worker pid=41) (Worker_TP1_EP1 pid=42) ERROR", Unwrapped("ERROR", "Worker_TP1_EP1", 42)),
        ("(VllmWorker rank=3 pid=42) ERROR", Unwrapped("ERROR", "VllmWorker", 42, 3)),
        ("(NPURayWorkerWrapper pid=42, ip=10.0.0.7) ERROR", Unwrapped("ERROR", "NPURayWorkerWrapper", 42)),
        ("[rank7]:[E203 text", Unwrapped("[E203 text", rank=7)),
        ("[rank7]: Traceback", Unwrapped("Traceback", rank=7)),
        ("it failed [repeated 6x across cluster]", Unwrapped("it failed", repeats=6)),
        ("it failed [repeated 6x across cluster] again", Unwrapped("it failed again", repeats=6)),
        ("2026-02-03T04:05:06.700800900Z stderr F (EngineCore pid=4) x", Unwrapped("x", "EngineCore", 4)),
        ("\x1b[1;36m(EngineCore pid=4)\x1b[0;0m x", Unwrapped("x", "EngineCore", 4)),
        ("(no wrapper) x", Unwrapped("(no wrapper) x")),
        ("(Worker pid=) x", Unwrapped("(Worker pid=) x")),
    ],
)
def test_what_wraps_a_line_comes_off(raw: str, unwrapped: Unwrapped) -> None:
    assert unwrap(raw) == unwrapped


def test_records_that_share_a_line_are_parted() -> None:
    first = "[ERROR] RUNTIME(71,python):2026-02-03-04:05:06.700.800 [task.cc:9]copy failed, length=8."
    second = "[INFO] DRV(71,python):2026-02-03-04:05:06.700.801 [ascend]done"
    assert list(lines_of(first + second)) == [first, second]
    assert list(lines_of(first + " [ERROR] in brackets")) == [first + " [ERROR] in brackets"]


def test_returns_zeros_and_length_are_dealt_with() -> None:
    assert list(lines_of("a\r\nb\n10%\r20%\n\0\0c")) == ["a", "b", "10%", "20%", "c"]
    assert len(bounded("x" * (MAX_LINE + 1))) == MAX_LINE
    assert bounded("x" * MAX_LINE) == "x" * MAX_LINE


def test_levels_are_told_by_word_or_letter() -> None:
    assert [level_named(word) for word in ("EVENT", "E", "warning", "TRACE", "LOUD", None)] == [
        "notice",
        "error",
        "warning",
        "debug",
        None,
        None,
    ]


@given(st.text())
def test_no_text_is_lost_but_wrappers(text: str) -> None:
    assert "".join(lines_of(text)).replace("\r", "") == "".join(
        part[:MAX_LINE] for part in text.replace("\0", "").replace("\r", "\n").split("\n")
    )
    for line in lines_of(text):
        assert len(unwrap(line).text) <= len(line)
