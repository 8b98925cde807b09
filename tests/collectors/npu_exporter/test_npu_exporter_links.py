"""npu-exporter's figures of single links: numbers in names and labels of every version become labels."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.npu_exporter.names import FAILED, ROWS
from collectors.npu_exporter.npu_exporter_links import (
    SHARES,
    NpuExporterLinksCollector,
    parse_npu_exporter_links,
)
from collectors.page import PageSource, SharedPage
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
        collector = NpuExporterLinksCollector(SharedPage(PageSource(f"{server.url}/metrics")))
        samples = asyncio.run(collector.collect(NOW))
        server.page = PAGE.encode()[:-30]
        with pytest.raises(CollectorError, match="cut off"):
            asyncio.run(collector.collect(NOW))
    assert samples == parse_npu_exporter_links(PAGE, NOW).samples


def machine(chips: int, value: float, now: float) -> bytes:
    """A page of so many chips with one link figure each, which all were read at `now`."""
    lines = [
        f'npu_chip_info_hccs_statistic_info_crc_err_cnt_1{{id="{chip}"}} {value + chip} {1000 * now:.0f}\n'
        for chip in range(chips)
    ]
    return "".join(lines).encode()


def read(collector: NpuExporterLinksCollector, now: float) -> dict[str, tuple[object, float]]:
    samples = asyncio.run(collector.collect(now))
    return {dict(sample.labels)["npu"]: (sample.value, sample.time) for sample in samples}


def test_each_device_is_read_once_in_the_interval_and_stands_in_between() -> None:
    with page_server(PageServer(machine(8, 0.0, NOW))) as server:
        collector = NpuExporterLinksCollector(SharedPage(PageSource(server.url)), interval_seconds=30.0)
        assert collector.interval_seconds == 30.0 / SHARES
        assert read(collector, NOW) == {str(chip): (chip, NOW) for chip in range(8)}, "at first all of them"
        changed: list[str] = []
        for step in range(1, SHARES + 1):
            now = NOW + 5.0 * step
            server.page = machine(8, 100.0 * step, now)
            found = read(collector, now)
            assert len(found) == 8
            changed += sorted(chip for chip, (value, time) in found.items() if time == now)
    assert changed == ["0", "6", "1", "7", "2", "3", "4", "5"]


def test_a_page_of_other_lines_is_read_whole_and_old_devices_are_gone() -> None:
    with page_server(PageServer(machine(8, 0.0, NOW))) as server:
        collector = NpuExporterLinksCollector(SharedPage(PageSource(server.url)))
        read(collector, NOW)
        server.page = machine(7, 50.0, NOW + 5.0)
        assert read(collector, NOW + 5.0) == {str(chip): (50.0 + chip, NOW + 5.0) for chip in range(7)}


def test_nothing_stands_over_a_failure() -> None:
    with page_server(PageServer(machine(8, 0.0, NOW))) as server:
        collector = NpuExporterLinksCollector(SharedPage(PageSource(server.url)))
        read(collector, NOW)
        server.page = machine(8, 0.0, NOW)[:-5]
        with pytest.raises(CollectorError, match="cut off"):
            asyncio.run(collector.collect(NOW + 5.0))
        server.page = machine(8, 50.0, NOW + 10.0)
        assert {time for _, time in read(collector, NOW + 10.0).values()} == {NOW + 10.0}


def test_a_device_that_is_read_no_more_is_absent_from_its_turn_on_and_told() -> None:
    with page_server(PageServer(machine(8, 0.0, NOW))) as server:
        collector = NpuExporterLinksCollector(SharedPage(PageSource(server.url)))
        read(collector, NOW)
        stamps = machine(8, 0.0, NOW + 400.0).split(b"\n")
        stamps[1] = machine(8, 0.0, NOW).split(b"\n")[1]
        server.page = b"\n".join(stamps)
        for step in range(SHARES):
            found = read(collector, NOW + 400.0 + step)
    assert set(found) == set("0234567")
    assert collector.notes == ("NPU 1 was last read more than 300 s ago",)


@given(st.sampled_from(ROWS), st.floats(allow_nan=True, allow_infinity=True))
def test_no_row_makes_a_number_of_a_failed_reading(row: object, value: float) -> None:
    assert isinstance(row, type(ROWS[0]))
    converted = row.convert(value)
    if not 0.0 <= value < math.inf or value in FAILED or value > row.highest:
        assert converted is None
    elif not row.flag:
        assert converted == value * row.factor
