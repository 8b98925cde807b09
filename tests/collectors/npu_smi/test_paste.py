"""Whatever npu-smi printed is told apart by its content, and nothing of it is swallowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.npu_smi.paste import DEVICE_KEYS, PROCESS_KEYS, parse_paste, parse_topology_paste

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"
MEBIBYTE = 1024**2
KEYS = {"tool_version", "layout", "devices", "processes", "notes", "error"}


def text_of(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


def parsed(text: str) -> dict[str, Any]:
    return parse_paste(text)


def matrix(text: str) -> dict[str, Any]:
    return parse_topology_paste(text)


def test_the_table() -> None:
    found = parsed(text_of("b_26_wide"))
    assert set(found) == KEYS
    assert (found["tool_version"], found["layout"], found["error"]) == ("26.1.0.b061", "B", None)
    assert all(tuple(one) == DEVICE_KEYS for one in found["devices"])
    assert all(tuple(one) == PROCESS_KEYS for one in found["processes"])


def test_numbers_are_in_base_units_and_ids_are_numbers() -> None:
    [device] = parsed(text_of("c_950"))["devices"]
    assert (device["npu"], device["chip"], device["phy"]) == (6, None, None)
    assert device["aicore_ratio"] is None, "this layout has the use of the whole NPU, not of the AI cores"
    first = parsed(text_of("b_910b"))["devices"][0]
    assert (first["aicore_ratio"], first["hbm_used_bytes"]) == (0.63, 59910 * MEBIBYTE)
    assert (first["memory_used_bytes"], first["memory_total_bytes"]) == (0, 0)


def test_a_pid_in_the_container() -> None:
    table = text_of("b_26_wide")
    pids = {one["pid"]: one["container_pid"] for one in parsed(table)["processes"]}
    assert pids
    for pid, container_pid in pids.items():
        row = next(line for line in table.splitlines() if f"| {pid} " in line)
        last = row.rstrip("| ").rpartition("|")[2].strip()
        assert container_pid == (None if last == "NA" else int(last))


def test_a_process_on_a_chip_that_is_not_shown_is_told() -> None:
    table = text_of("b_910b").replace(
        "| 0       0                 | 40305", "| 7       0                 | 40305"
    )
    assert [note for note in parsed(table)["notes"] if "process 40305 is on NPU 7 chip 0" in note]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (text_of("t_usages_two_dies"), "usages"),
        (text_of("t_common_mcu"), "common"),
        (text_of("t_ecc"), "ecc"),
        (text_of("t_hccs"), "hccs"),
        (text_of("t_health_alarm"), "health"),
        (text_of("t_proc_mem"), "proc-mem"),
        (text_of("topo_phy_nic"), "topo"),
        (text_of("watch_a3"), "watch"),
        ("Total Count : 1\n\nNPU ID : 0\nChip Count : 1\n", "list"),
        ("NPU ID : 0\nChip Count : 1\n", "list"),
        ("NPU ID  Chip ID  Chip Logic ID  Chip Name\n0  0  0  Ascend 910B3\n", "mapping"),
        ("npu-smi version: 25.0.rc1\n", "version"),
        ("NPU ID : 0\nVoltage(V) : 0.81\n", "volt"),
        ("NPU ID : 0\nTemperature (C) : 53\n", "temp"),
        ("NPU ID : 0\nNPU Real-time Power(W) : 53.0\n", "power"),
        ("Chip Phy-ID :3\nNPU ID :1\nSlot ID :0\nChip ID :1\n", "phyid-remap"),
        (
            "\tTX Error Count : 0\n\tRX Error Count : 0\n\tLcrc Error Count : 1\n\tRetry Count : 2\n",
            "err-count",
        ),
    ],
)
def test_the_kind_is_told_by_the_content(text: str, kind: str) -> None:
    prompt = "[root@host ~]# npu-smi info -t something\n"
    for page in (text, "\n\n" + text, text.replace("\n", "\r\n")):
        found = parsed(page)
        assert (found["type"], found["error"]) == (kind, None)
        assert set(found) > KEYS
        assert all(tuple(one) == DEVICE_KEYS for one in found["devices"])
    assert parsed(prompt + text)["type"] == kind


def test_readings_of_the_controller_are_not_a_device() -> None:
    found = parsed(text_of("t_common_mcu"))
    assert [one["temperature_celsius"] for one in found["devices"]] == [58.0]
    assert [one["controller"] for one in found["readings"]] == [False, True]


def test_lines_that_are_not_known_are_listed_and_counted() -> None:
    strange = [f"Strange thing {number} : 1" for number in range(250)]
    found = parsed("\n".join(["NPU ID : 0", "Voltage(V) : 0.81", *strange]))
    assert len(found["notes"]) == 101
    assert found["notes"][0] == "line 3: not a known line: Strange thing 0 : 1"
    assert found["notes"][-1] == "and 150 more like these"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (text_of("error_8005"), "-8005: inner error"),
        (text_of("no_header"), "without its header rows"),
        ("", "printed nothing"),
        ("hello\nworld\n", "but: hello"),
        ("NpuID(Idx)  Pwr(W)\n", "no row"),
        ("NPU ID  Chip ID  Chip Logic ID  Chip Name\n", "no row"),
        ("NPU ID : 0\nVoltage(V) : high\n", "no value in it can be read"),
        ("This device does not support querying volt.\n", "does not support querying volt"),
    ],
)
def test_what_cannot_be_read_has_a_reason(text: str, reason: str) -> None:
    found = parsed(text)
    assert reason in found["error"]
    assert found["devices"] == found["processes"] == []
    lines = [line for line in text.splitlines() if line.strip()]
    assert not lines or found["notes"] or reason == "no row"


def test_escape_codes_of_a_terminal_are_not_part_of_it() -> None:
    table = text_of("b_910b").replace("OK", "\x1b[32mOK\x1b[0m")
    assert parsed(table) == parsed(text_of("b_910b"))


def test_the_matrix_alone() -> None:
    found = matrix(text_of("topo_phy_nic"))
    assert found["readings"][0] == {"device": "Phy-ID8", "cpus": "0-3,8-11"}
    assert found["links"] == [
        {"from": "Phy-ID8", "to": "Phy-ID9", "way": "SIO"},
        {"from": "Phy-ID8", "to": "NIC0", "way": "PIX"},
        {"from": "Phy-ID9", "to": "NIC0", "way": None},
    ]
    assert "no matrix of devices" in matrix(text_of("b_910b"))["error"]
    assert "-8005" in matrix(text_of("error_8005"))["error"]


PAGES = [path.read_text() for path in sorted(FIXTURES.glob("*.txt"))]


@given(st.sampled_from(PAGES), st.integers(0, 4000), st.integers(0, 200), st.text(max_size=30))
def test_any_damage_gives_a_whole_answer(page: str, at: int, gone: int, put: str) -> None:
    found = parsed(page[:at] + put + page[at + gone :])
    assert set(found) >= KEYS
    assert (
        found["error"] is not None
        or found["devices"]
        or found["processes"]
        or found["readings"]
        or "type" in found
    )
    for device in found["devices"]:
        for key in DEVICE_KEYS:
            if key.endswith("_used_bytes") and device[key] is not None:
                total = device[key.replace("_used", "_total")]
                assert total is None or device[key] <= total
