"""npu-exporter's page becomes base units, and its codes for failure become absence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.npu_exporter import NpuExporterCollector, Reading, parse_npu_exporter
from collectors.prometheus_text import PageError
from collectors.sample import CollectorError, Labels, labels
from tests.collectors.page_server import PageServer, page_server

PAGE = (Path(__file__).parent / "fixtures" / "npu_exporter" / "two_devices.prom").read_text()
NOW = 1_700_000_001.0
FIRST = labels(npu="0", chip="0", name="910B3-Ascend-V1")
SECOND = labels(npu="1", chip="0", name="910B3-Ascend-V1")


def values(reading: Reading) -> dict[tuple[str, Labels], object]:
    return {(sample.name, sample.labels): sample.value for sample in reading.samples}


def test_units_become_base_units() -> None:
    found = values(parse_npu_exporter(PAGE, NOW))
    assert found["npu_aicore_frequency_hertz", FIRST] == 1.8e9
    assert found["npu_hbm_used_bytes", FIRST] == 58123 * 1024**2
    assert found["npu_hbm_total_bytes", FIRST] == 64 * 1024**3
    assert found["npu_aicore_usage_ratio", FIRST] == pytest.approx(0.78)
    assert found["npu_hbm_bandwidth_usage_ratio", FIRST] == pytest.approx(0.35)
    assert found["npu_power_watts", FIRST] == 287.5


def test_health_is_one_zero_or_absent() -> None:
    found = values(parse_npu_exporter(PAGE, NOW))
    assert found["npu_health_ok", FIRST] == 1.0
    assert found["npu_health_ok", SECOND] == 0.0
    assert ("npu_network_ok", FIRST) not in found, "-1 is unknown"
    assert found["npu_network_ok", SECOND] == 1.0


def test_a_failed_reading_is_absent() -> None:
    found = values(parse_npu_exporter(PAGE, NOW))
    assert ("npu_aicore_usage_ratio", SECOND) not in found, "4294967295 is the exporter's failure"


def test_a_device_without_ddr_memory_has_no_figure_for_it() -> None:
    found = values(parse_npu_exporter(PAGE, NOW))
    assert ("npu_memory_total_bytes", FIRST) not in found
    assert ("npu_memory_used_bytes", FIRST) not in found


def test_error_codes_are_hexadecimal_and_absent_when_healthy() -> None:
    reading = parse_npu_exporter(PAGE, NOW)
    codes = [sample for sample in reading.samples if sample.name == "npu_error_active"]
    assert [(dict(sample.labels)["npu"], dict(sample.labels)["code"]) for sample in codes] == [
        ("1", "80E01801")
    ]


def test_processes_and_ecc_errors() -> None:
    found = values(parse_npu_exporter(PAGE, NOW))
    pid = labels(npu="0", chip="0", name="910B3-Ascend-V1", pid="4211")
    assert found["npu_process_memory_bytes", pid] == 54321 * 1024**2
    bits = labels(npu="1", chip="0", name="910B3-Ascend-V1", bits="double")
    assert found["npu_hbm_ecc_errors_total", bits] == 2.0


def test_the_names_in_use_are_percent() -> None:
    found = values(parse_npu_exporter(PAGE, NOW))
    assert found["npu_mem_bandwidth", FIRST] == pytest.approx(35.0)
    assert found["npu_sm_activity", FIRST] == pytest.approx(78.0)


def test_a_reading_has_the_time_the_exporter_stamped_on_it() -> None:
    times = {
        sample.time for sample in parse_npu_exporter(PAGE, NOW).samples if sample.name == "npu_health_ok"
    }
    assert times == {1_700_000_000.1, 1_700_000_000.4}


def test_a_stamp_from_the_future_is_now() -> None:
    reading = parse_npu_exporter(PAGE, 1_699_999_990.0)
    assert {sample.time for sample in reading.samples} == {1_699_999_990.0}


def test_a_device_that_is_read_no_more_is_absent_and_told() -> None:
    old = PAGE.replace("1700000000400", "1699999000400")
    reading = parse_npu_exporter(old, NOW)
    assert {dict(sample.labels)["npu"] for sample in reading.samples} == {"0"}
    assert reading.notes == ("NPU 1 was last read more than 300 s ago",)


def test_a_series_printed_twice_or_without_an_id_is_told() -> None:
    page = (
        'npu_chip_info_power{id="0",pod_name="a"} 100\n'
        'npu_chip_info_power{id="0",pod_name="b"} 200\n'
        "npu_chip_info_temperature 50\n"
    )
    reading = parse_npu_exporter(page, NOW)
    assert values(reading)["npu_power_watts", labels(npu="0", chip="0")] == 100.0
    assert set(reading.notes) == {
        "npu_chip_info_power of NPU 0 stands twice on the page",
        "npu_chip_info_temperature without an id",
    }


@pytest.mark.parametrize("page", ["machine_npu_nums 8\n", PAGE[:-40], PAGE.replace("17000", "15000")])
def test_a_page_without_a_device_is_an_error(page: str) -> None:
    with pytest.raises(PageError, match=r"no device|cut off|last read"):
        parse_npu_exporter(page, NOW)


def test_scrapes_a_server() -> None:
    with page_server(PageServer(PAGE.encode())) as server:
        collector = NpuExporterCollector(f"{server.url}/metrics")
        samples = asyncio.run(collector.collect(NOW))
        server.page = b"up 1\n"
        with pytest.raises(CollectorError, match="no device"):
            asyncio.run(collector.collect(NOW))
    assert samples == parse_npu_exporter(PAGE, NOW).samples
    assert collector.notes == ()
