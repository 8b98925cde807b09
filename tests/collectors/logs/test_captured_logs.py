"""Captured logs of real systems, where a folder of them is at hand: every event in them, and no line passed over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from collectors.logs.codes import acl_codes
from collectors.logs.faults import fault
from collectors.logs.report import parsed_dmesg, parsed_logs
from tests.prepare import ROOT

CAPTURED: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "collectors" / "fixtures" / "logs" / "captured.yaml").read_text()
)
GIB = 2**30
MIB = 2**20


def report(path: Path) -> dict[str, Any]:
    read: Callable[[str], dict[str, Any]] = parsed_dmesg if path.parent.name == "dmesg" else parsed_logs
    return read(path.read_text())


@pytest.mark.parametrize("name", CAPTURED)
def test_a_captured_log(corpus: Path, name: str) -> None:
    found = report(corpus / name)
    expected = CAPTURED[name]
    assert {event["signature"]: event["count"] for event in found["events"]} == expected["events"]
    assert found["lines"] == expected["lines"]
    assert len(found["notes"]) == expected["unknown"]
    assert sum(found["formats"].values()) + len(found["notes"]) == found["lines"]
    assert (found["error"] is None) == (found["lines"] > expected["unknown"])


def test_every_captured_log_is_looked_at(corpus: Path, say: Callable[[str], None]) -> None:
    present = {*(corpus / "logs").rglob("*.log"), *(corpus / "logs" / "oom").iterdir()}
    present |= {*(corpus / "dmesg").glob("*.txt"), *(corpus / "engines").glob("*.log")}
    assert {str(path.relative_to(corpus)) for path in present} == set(CAPTURED)
    lines = sum(expected["lines"] for expected in CAPTURED.values())
    unknown = sum(expected["unknown"] for expected in CAPTURED.values())
    events = sum(sum(expected["events"].values()) for expected in CAPTURED.values())
    say(
        f"{len(CAPTURED)} captured logs: {lines} lines, {unknown} of no known format (listed), {events} events"
    )


def test_every_figure_of_the_out_of_memory_errors(corpus: Path) -> None:
    found = report(corpus / "logs" / "oom" / "oom_texts.txt")["out_of_memory"]
    names = ("device", "requested", "capacity", "allocated", "active", "free", "reserved")
    figures = [tuple(one[n if n == "device" else f"{n}_bytes"] for n in names) for one in found]
    expected = [
        (0, 22 * MIB, 60.97 * GIB, 10.24 * GIB, 10.24 * GIB, 19.52 * MIB, 10.65 * GIB),
        (3, 30 * MIB, 60.96 * GIB, 60.34 * GIB, 60.34 * GIB, 14.24 * MIB, 60.60 * GIB),
        (0, 3.47 * GIB, 60.97 * GIB, 58.92 * GIB, 58.92 * GIB, 1.66 * GIB, 58.95 * GIB),
        (0, 72 * MIB, 61.27 * GIB, 56.05 * GIB, 56.05 * GIB, 5.04 * MIB, 58.39 * GIB),
        (0, 260 * MIB, 28.50 * GIB, 10.24 * GIB, 10.24 * GIB, 149.57 * MIB, 10.28 * GIB),
        (0, 2 * GIB, 43.24 * GIB, 40.39 * GIB, None, 764.23 * MIB, None),
    ]
    assert figures == expected
    assert [one["count"] for one in found] == [1, 6, 1, 1, 1, 1]


def test_the_table_of_codes_is_complete(corpus: Path) -> None:
    rows = [line.split()[:2] for line in (corpus / "logs" / "acl_error_codes.txt").read_text().splitlines()]
    assert {(code.name, str(code.code)) for code in acl_codes().values()} == {
        (name, code) for name, code in rows
    }


def test_every_fault_event_of_the_device_has_a_meaning(corpus: Path) -> None:
    rows = (corpus / "dmesg" / "ascend_fault_events.tsv").read_text().splitlines()
    ids = [int(row.split("\t")[0], 16) for row in rows if row.startswith("0x8") and "\tNPU_OS" in row]
    assert len(ids) > 150
    assert [f"{number:x}" for number in ids if "unknown" in (fault(number).meaning or "unknown")] == []
