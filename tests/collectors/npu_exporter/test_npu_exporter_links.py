"""npu-exporter's figures of single links: numbers in names and labels of every version become labels."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.npu_exporter.names import FAILED, ROWS
from collectors.npu_exporter.npu_exporter_links import NpuExporterLinksCollector, parse_npu_exporter_links
from collectors.prometheus_text import PageError
from collectors.sample import CollectorError, Labels, labels
from tests.collectors.page_server import PageServer, page_server

PAGE = (Path(__file__).parent.parent / "fixtures" / "npu_exporter_links" / "a2_and_950.prom").read_text()
NOW = 1_700_000_001.0
A2 = {"npu": "0", "chip": "0", "name": "910B3-Ascend-V1"}
DT = {"npu": "1", "chip": "0", "name": "950DT"}


def values(page: str) -> dict[tuple[str, Labels], object]:
    reading = parse_npu_exporter_links(page, NOW)
    assert reading.notes == ()
    return {(sample.name, sample.labels): sample.value for sample in reading.samples}


def test_units_become_base_units() -> None:
    found = values(PAGE)
    assert found["npu_link_speed_bytes_per_second", labels(**A2)] == 25e9, "200 Gbit/s"
    assert found["npu_network_bytes_per_second", labels(**A2, direction="rx")] == 12.5e6
    lane = labels(**A2, direction="tx", lane="2")
    assert found["npu_optical_power_watts", lane] == pytest.approx(0.00087)


def test_numbers_of_links_and_statistics_become_labels() -> None:
    found = values(PAGE)
    assert found["npu_hccs_crc_errors_total", labels(**A2, link="3")] == 17.0
    posted = {**A2, "direction": "rx", "kind": "posted"}
    assert found["npu_pcie_bytes_per_second", labels(**posted, stat="avg")] == 4e9
    assert found["npu_pcie_bytes_per_second", labels(**posted, stat="max")] == 9e9


def test_a_failed_reading_is_absent_and_a_large_count_is_not() -> None:
    found = values(PAGE)
    assert found["npu_roce_error_packets_total", labels(**A2, direction="rx")] == 6e12
    assert ("npu_roce_error_packets_total", labels(**A2, direction="tx")) not in found
    assert not [name for name, _ in found if name == "npu_hccs_link_bytes_per_second"]


def test_a_port_is_told_by_labels_or_by_the_end_of_the_name() -> None:
    found = values(PAGE)
    counts = {"direction": "rx", "kind": "ipv4", "die": "1"}
    assert found["npu_ub_packets_total", labels(**DT, **counts, port="5")] == 88.0, (
        "printed in both ways, read once"
    )
    assert found["npu_ub_packets_total", labels(**DT, **counts, port="6")] == 99.0
    lane = labels(**DT, direction="rx", lane="3", die="0", port="7")
    assert found["npu_optical_power_watts", lane] == pytest.approx(0.0005)


def test_a_device_without_such_figures_gives_none() -> None:
    assert values('npu_chip_info_name{id="0"} 1\n') == {}
    assert values("up 1\n") == {}


def test_devices_that_are_read_no_more_are_an_error() -> None:
    with pytest.raises(PageError, match="last read more than 300 s ago"):
        parse_npu_exporter_links(PAGE.replace("17000000", "15000000"), NOW)


def test_scrapes_a_server() -> None:
    with page_server(PageServer(PAGE.encode())) as server:
        collector = NpuExporterLinksCollector(f"{server.url}/metrics", interval_seconds=30.0)
        samples = asyncio.run(collector.collect(NOW))
        server.page = PAGE.encode()[:-30]
        with pytest.raises(CollectorError, match="cut off"):
            asyncio.run(collector.collect(NOW))
    assert samples == parse_npu_exporter_links(PAGE, NOW).samples


@given(st.sampled_from(ROWS), st.floats(allow_nan=True, allow_infinity=True))
def test_no_row_makes_a_number_of_a_failed_reading(row: object, value: float) -> None:
    assert isinstance(row, type(ROWS[0]))
    converted = row.convert(value)
    if not 0.0 <= value < math.inf or value in FAILED or value > row.highest:
        assert converted is None
    elif not row.flag:
        assert converted == value * row.factor
