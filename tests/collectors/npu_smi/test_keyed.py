"""`key : value` outputs: whose lines they are, base units, and nothing swallowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.npu_smi.fields import FIELDS
from collectors.npu_smi.keyed import Keyed, ProcessMemory, Section, parse_keyed

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"
MEBIBYTE = 1024.0**2


def read(name: str) -> Keyed:
    return parse_keyed((FIXTURES / f"{name}.txt").read_text())


def test_a_chip_named_after_its_lines() -> None:
    keyed = read("t_usages_two_dies")
    assert (keyed.type, keyed.notes) == ("usages", ())
    first, second = keyed.sections
    assert (first.npu, first.chip, second.npu, second.chip) == ("6", "0", "6", "1")
    assert first.values["hbm_total_bytes"] == 65536 * MEBIBYTE
    assert first.values["hbm_bandwidth_usage_ratio"] == 0.44
    assert first.values["aicpu_usage_ratio"] is None, "NA is neither absent from the output nor zero"
    assert second.values["aicore_usage_ratio"] == 0.55
    assert "vector_usage_ratio" not in second.values


def test_a_chip_named_before_its_lines_and_the_controller_beside_it() -> None:
    keyed = read("t_common_mcu")
    assert (keyed.type, keyed.notes) == ("common", ())
    chip, controller = keyed.sections
    assert (chip.npu, chip.chip, chip.controller) == ("3", "0", False)
    assert chip.values["aicore_frequency_hertz"] == 1.2e9
    assert chip.values["aicore_rated_frequency_hertz"] == 1.65e9
    assert chip.values["temperature_celsius"] == 58.0
    assert controller == Section("3", None, True, {"temperature_celsius": 41.0})


def test_fault_codes_and_information_that_goes_on() -> None:
    keyed = read("t_health_alarm")
    assert keyed.notes == ()
    [section] = keyed.sections
    assert section.values["health"] == "Alarm"
    assert section.values["error_codes"] == ("80E01801", "80CB8002")
    assert section.values["error_information"] == (
        "node type=HBM, sensor type=ECC\nnode type=L2BUFF, sensor type=Check"
    )


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("NA", ()),
        ("0x81AF8000", ("81AF8000",)),
        ("81af8000,80e01801", ("81AF8000", "80E01801")),
        ("0A0F", ("A0F",)),
    ],
)
def test_spellings_of_fault_codes(text: str, codes: tuple[str, ...]) -> None:
    [section] = parse_keyed(f"Error Code : {text}").sections
    assert section.values["error_codes"] == codes


def test_arrays_over_links() -> None:
    [section] = read("t_hccs").sections
    assert section.values["hccs_health"] == "NOK"
    assert section.values["hccs_link_bits_per_second"] == (224e9, 224e9, 112e9)
    assert section.values["hccs_link_lanes"] == ("1111", "1111", "0011")
    assert section.values["hccs_errors"] == (0.0, 0.0, 2.0)
    assert section.values["hccs_first_error_lane"] is None


def test_processes_belong_to_the_chip_named_after_them() -> None:
    keyed = read("t_proc_mem")
    assert keyed.processes == (
        ProcessMemory("0", "0", "70011", "VLLM::Worker_TP", 50120 * MEBIBYTE),
        ProcessMemory("0", "0", "70012", "python3 -m probe", None),
        ProcessMemory("0", "0", "70013", "x", None),
    )
    assert [note for note in keyed.notes if "line 4: process memory is '12z'" in note]


def test_a_physical_id_stands_before_its_npu() -> None:
    [section] = parse_keyed("Chip Phy-ID   :5\nNPU ID  :2\nSlot ID :1\nChip ID :1\n").sections
    assert section == Section("2", "1", False, {"phy_id": "5", "slot": "1"})


def test_probes_of_the_board_are_not_the_chips_temperature() -> None:
    text = "NPU ID : 0\nNPU Temperature (C) : 39\nChip ID : 0\nLM75A_TE (C) : 36\nXY_TE (C) : NA\nChip Name : MCU\n"
    chip, controller = parse_keyed(text).sections
    assert (chip.controller, dict(chip.values)) == (False, {"temperature_celsius": 39.0})
    assert (controller.controller, dict(controller.values)) == (
        True,
        {"lm75a_te_celsius": 36.0, "xy_te_celsius": None},
    )


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("Aicore Usage Rate(%) : 101", "aicore_usage_ratio cannot be read"),
        ("HBM Capacity(MB) : 6553b", "hbm_total_bytes cannot be read"),
        ("HBM Single Bit Error Count : -1", "hbm_ecc_single_bit_errors cannot be read"),
        ("Error Code : gg", "error_codes cannot be read"),
        ("hccs tx bytes : 1 2", "hccs_tx_bytes cannot be read"),
        ("Health : fine", "health cannot be read"),
        ("Flux Compensation : 88", "not a known line"),
        ("just words", "not a known line"),
        ("Chip ID : x", "Chip ID is no number"),
        ("Process id:abc Process name:x Process memory(MB):1", "a process without a number"),
    ],
)
def test_what_cannot_be_read_is_told_and_is_no_value(line: str, note: str) -> None:
    keyed = parse_keyed(f"NPU ID : 0\nTemperature(C) : 40\n{line}\n")
    assert [one for one in keyed.notes if note in one and "line 3" in one]
    [section] = keyed.sections
    assert dict(section.values) == {"temperature_celsius": 40.0}


def test_a_value_said_twice_without_a_chip_between_is_told() -> None:
    keyed = parse_keyed("Temperature(C) : 40\nTemperature(C) : 41\n")
    assert dict(keyed.sections[0].values) == {"temperature_celsius": 40.0}
    assert "said again" in keyed.notes[0]


KEYS = ["NPU ID", "Chip ID", "Chip Name", "Chip Count", "Health", "Error Information", *sorted(FIELDS)]


@given(
    st.lists(
        st.tuples(st.sampled_from(KEYS), st.sampled_from([":", " : ", "  ", ""]), st.text(max_size=20)),
        max_size=30,
    )
)
def test_any_lines_are_read_or_told(lines: list[tuple[str, str, str]]) -> None:
    keyed = parse_keyed("\n".join("".join(parts) for parts in lines))
    for section in keyed.sections:
        assert section.chip is None or section.chip.isdecimal()


@given(st.integers(0, 100), st.integers(0, 100), st.text("0123456789.-%xNA", min_size=1, max_size=6))
def test_damage_makes_no_number_up(first: int, second: int, damage: str) -> None:
    text = f"NPU ID : 1\nAicore Usage Rate(%) : {first}\nHBM Usage Rate(%) : {damage}\nChip ID : {second}\n"
    [section] = parse_keyed(text).sections
    assert section.values["aicore_usage_ratio"] == first / 100
    value = section.values.get("hbm_usage_ratio")
    if isinstance(value, float):
        assert value == float(damage) / 100
    else:
        assert damage in ("NA", "-") or parse_keyed(text).notes


@pytest.mark.parametrize(
    "line", ["Fault Event Count : {}", "hccs errors : [{}]", "hccs error count : [{}]", "XY_TE (C) : {}"]
)
@pytest.mark.parametrize("value", ["9" * 400, "1e5", "inf", "nan", "0x10", "1_0"])
def test_no_spelling_of_a_number_but_the_tools_is_one(line: str, value: str) -> None:
    keyed = parse_keyed(f"Temperature(C) : 40\n{line.format(value)}\n")
    assert dict(keyed.sections[0].values) == {"temperature_celsius": 40.0}
    assert len(keyed.notes) == 1
