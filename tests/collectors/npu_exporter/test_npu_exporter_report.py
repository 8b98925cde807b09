"""A pasted page is told whole: what was read of it, and what nobody knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.npu_exporter.report import MAX_NOTES, report

FIXTURES = Path(__file__).parent.parent / "fixtures"
PAGE = (FIXTURES / "npu_exporter" / "two_devices.prom").read_text()
LINKS = (FIXTURES / "npu_exporter_links" / "a2_and_950.prom").read_text()


@pytest.mark.parametrize("page", [PAGE, LINKS])
def test_all_of_a_known_page_is_read(page: str) -> None:
    told = report(page)
    assert (told["notes"], told["error"]) == ([], None)
    assert told["time"] == 1_700_000_000.4


def test_readings_are_in_base_units_and_say_which() -> None:
    readings = report(PAGE)["readings"]
    assert isinstance(readings, list)
    assert {
        "name": "npu_aicore_frequency_hertz",
        "unit": "hertz",
        "labels": {"npu": "0", "chip": "0", "name": "910B3-Ascend-V1"},
        "value": 1.8e9,
    } in readings


def test_names_that_are_not_known_are_listed_and_counted() -> None:
    page = (
        PAGE
        + 'npu_chip_info_brightness{id="0"} 3\nnpu_chip_info_brightness{id="1"} 4\n$ exit\ngo_threads 9\n'
    )
    assert report(page)["notes"] == [
        "npu_chip_info_brightness is not known (2 lines)",
        "'$ exit' is no series",
    ]


def test_a_paste_without_its_last_line_feed_is_whole() -> None:
    assert report(PAGE.rstrip("\n"))["error"] is None


@pytest.mark.parametrize(
    "line", ['power{id="0"} 1 ' + "9" * 4100, 'power{id="0"} 1 ' + "9" * 400, 'error_code{id="0"} 1e999']
)
def test_numbers_beyond_all_sense_are_told_and_no_reading(line: str) -> None:
    told = report(f"npu_chip_info_{line}\n")
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    readings = told["readings"]
    assert isinstance(readings, list) and all(one["name"] == "npu_info" for one in readings)


def test_what_is_no_page_is_an_error() -> None:
    assert "no device" in str(report("hello\n")["error"])
    assert "no value" in str(report('npu_chip_info_power{id="0"} lots\n')["error"])


@given(st.text(max_size=300) | st.lists(st.sampled_from((PAGE + LINKS).splitlines())).map("\n".join))
def test_any_text_is_told(text: str) -> None:
    told = report(text)
    json.dumps(told)
    assert isinstance(told["notes"], list) and len(told["notes"]) <= MAX_NOTES + 1
