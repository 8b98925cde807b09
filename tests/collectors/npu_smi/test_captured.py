"""Captured outputs of real tools, where a folder of them is at hand, against what a person reads in them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from collectors.npu_smi.paste import DEVICE_KEYS, PROCESS_KEYS, parse_paste, parse_topology_paste
from tests.collectors.npu_smi.captured_others import ERRORS, LINKS, OTHERS, PROCESSES, READ_IN_PART
from tests.collectors.npu_smi.captured_tables import DAMAGED, TABLES

MEBIBYTE = 1024**2


def parsed(corpus: Path, name: str) -> dict[str, Any]:
    return parse_paste((corpus / "npu-smi" / f"{name}.txt").read_bytes().decode(errors="backslashreplace"))


def topology(corpus: Path, name: str) -> dict[str, Any]:
    return parse_topology_paste((corpus / "npu-smi" / f"{name}.txt").read_text())


def pair(text: str, unit: int) -> tuple[int | None, int | None]:
    if text == "-":
        return None, None
    used, total = text.split("/")
    return int(used) * unit, int(total) * unit


def device(line: str) -> dict[str, object]:
    npu, chip, phy, name, health, bus, watts, celsius, aicore, memory, hbm, pages = line.split()

    def number(text: str) -> int | None:
        return None if text == "-" else int(text)

    memory_used, memory_total = pair(memory, MEBIBYTE)
    hbm_used, hbm_total = pair(hbm, MEBIBYTE)
    pages_used, pages_total = pair(pages, 1)
    return {
        "npu": int(npu),
        "chip": number(chip),
        "phy": number(phy),
        "name": name,
        "health": health,
        "bus_id": None if bus == "-" else bus,
        "power_watts": None if watts == "-" else float(watts),
        "temperature_celsius": float(celsius),
        "aicore_ratio": None if aicore == "-" else int(aicore) / 100,
        "memory_used_bytes": memory_used,
        "memory_total_bytes": memory_total,
        "hbm_used_bytes": hbm_used,
        "hbm_total_bytes": hbm_total,
        "hugepages_used": pages_used,
        "hugepages_total": pages_total,
    }


def process(line: str) -> dict[str, object]:
    npu, chip, pid, container_pid, name, memory = line.split()
    return {
        "npu": None if npu == "-" else int(npu),
        "chip": None if chip == "-" else int(chip),
        "pid": int(pid),
        "container_pid": None if container_pid == "-" else int(container_pid),
        "name": name,
        "memory_bytes": int(memory) * MEBIBYTE,
    }


def differences(name: str, found: dict[str, Any]) -> list[str]:
    """In what the table is not as a person reads it."""
    version, layout, devices, processes = TABLES[name]
    expected = {
        "tool_version": version,
        "layout": layout,
        "devices": [device(line) for line in devices.splitlines()],
        "processes": [process(line) for line in processes.splitlines()],
        "error": None,
    }
    wrong = [f"{key}: {found[key]} is not {value}" for key, value in expected.items() if found[key] != value]
    if name not in DAMAGED and found["notes"]:
        wrong.append(f"nothing is wrong with it, but it says: {found['notes']}")
    told = "\n".join(found["notes"])
    return wrong + [f"it does not say: {note}" for note in DAMAGED.get(name, ()) if note not in told]


def test_every_captured_table_is_read_as_a_person_reads_it(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {name: differences(name, parsed(corpus, name)) for name in TABLES}
    right = [name for name, found in wrong.items() if not found]
    with capsys.disabled():
        told = f"npu-smi info: {len(right)} of {len(TABLES)} captured tables with a readable row are right"
        sys.stdout.write(f"\n{told}\n")
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("name", TABLES)
def test_the_printed_keys_are_the_promised_ones(corpus: Path, name: str) -> None:
    found = parsed(corpus, name)
    assert list(found) == ["tool_version", "layout", "devices", "processes", "notes", "error"]
    assert all(tuple(one) == DEVICE_KEYS for one in found["devices"])
    assert all(tuple(one) == PROCESS_KEYS for one in found["processes"])


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_read_has_its_reason(corpus: Path, name: str) -> None:
    found = parsed(corpus, name)
    assert found["devices"] == found["processes"] == []
    assert all(part in found["error"] for part in ERRORS[name]), found["error"]


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_output_is_told_apart_and_read(corpus: Path, name: str) -> None:
    found = parsed(corpus, name)
    kind, readings = OTHERS[name]
    assert (found["type"], found["error"]) == (kind, None)
    assert tuple(found["notes"]) == READ_IN_PART.get(name, ())
    checked = [
        {key: row[key] for key in wanted} for row, wanted in zip(found["readings"], readings, strict=False)
    ]
    assert checked == readings
    if kind != "topo":
        assert len(found["readings"]) == len(readings)
    assert found["processes"] == [process(line) for line in PROCESSES.get(name, "").splitlines()]


@pytest.mark.parametrize("name", LINKS)
def test_a_captured_topology_has_its_links(corpus: Path, name: str) -> None:
    found = topology(corpus, name)
    links = {(link["from"], link["to"]): link["way"] for link in found["links"]}
    assert {ends: links[ends] for ends in LINKS[name]} == LINKS[name]
    count = len(found["readings"])
    assert len(links) == count * (count - 1) // 2


def test_no_captured_output_is_left_out(corpus: Path) -> None:
    for path in sorted((corpus / "npu-smi").glob("*.txt")):
        if path.stem not in {*TABLES, *ERRORS, *OTHERS}:
            found: dict[str, Any] = parsed(corpus, path.stem)
            assert found["error"] or found["devices"] or found["processes"] or found["readings"], path.stem
    assert {path.stem for path in (corpus / "npu-smi").glob("*.txt")} >= {*TABLES, *ERRORS, *OTHERS}
