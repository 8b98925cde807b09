"""npu-exporter's page becomes base units, and its codes for failure become absence."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.metrics import METRICS
from collectors.npu_exporter.names import ERROR_CODES, MACHINE, PLACEHOLDERS, ROWS
from collectors.npu_exporter.npu_exporter import NpuExporterCollector, parse_npu_exporter
from collectors.npu_exporter.npu_exporter_links import parse_npu_exporter_links
from collectors.npu_exporter.page import Reading
from collectors.page import PageSource, SharedPage
from collectors.prometheus_text import PageError
from collectors.sample import CollectorError, Labels, labels
from tests.collectors.page_server import PageServer, page_server

PAGE = (Path(__file__).parent.parent / "fixtures" / "npu_exporter" / "two_devices.prom").read_text()
NOW = 1_700_000_001.0
FIRST = labels(npu="0", chip="0", name="910B3-Ascend-V1")
SECOND = labels(npu="1", chip="0", name="910B3-Ascend-V1")
ENGINE = {"namespace": "llm", "pod": "engine-0", "container": "engine"}


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
    pid = labels(**dict(FIRST), pid="4211", **ENGINE)
    assert found["npu_process_memory_bytes", pid] == 54321 * 1024**2
    bits = labels(npu="1", chip="0", name="910B3-Ascend-V1", bits="double")
    assert found["npu_hbm_ecc_errors_total", bits] == 2.0


@pytest.mark.parametrize(
    "series",
    [
        'npu_chip_info_power{id="0",container_name="my_vllm_1",namespace="",pod_name=""} 200\n',
        'npu_container_info{containerName="My_vllm_1",npuID="0"} 1\n',
    ],
)
def test_underscores_of_a_container_without_a_pod_are_its_own(series: str) -> None:
    page = 'npu_chip_info_power{id="1"} 100\n' + series
    users = [sample for sample in parse_npu_exporter(page, NOW).samples if sample.name == "npu_used_by"]
    assert [set(dict(sample.labels)) for sample in users] == [{"npu", "chip", "container"}]


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
    assert {dict(sample.labels).get("npu") for sample in reading.samples} == {"0", None}
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


def test_who_uses_a_device_stands_apart_from_its_readings() -> None:
    found = values(parse_npu_exporter(PAGE, NOW))
    assert found["npu_used_by", labels(**dict(FIRST), **ENGINE)] == 1.0
    assert ("npu_power_watts", FIRST) in found, "a pod that comes or goes does not end the device's series"


def test_a_device_is_identified() -> None:
    page = PAGE + (
        'npu_chip_info_serial_number{id="0",model_name="x",serial_number="10250001"} 1\n'
        'npu_chip_info_serial_number{id="1",model_name="x",serial_number="NA"} 1\n'
        'npu_chip_info_product_type{id="0",model_name="x",product_type="Atlas 300I Duo"} 1\n'
    )
    found = values(parse_npu_exporter(page, NOW))
    first = labels(
        **dict(FIRST), bus_id="0000:C1:00.0", vdie_id="A-0", serial="10250001", product="Atlas 300I Duo"
    )
    assert found["npu_info", first] == 1.0
    assert found["npu_info", labels(**dict(SECOND), bus_id="0000:C2:00.0", vdie_id="A-1")] == 1.0


def test_the_machine_and_the_exporter_are_told() -> None:
    page = PAGE + (
        "machine_card_nums 1\n"
        'npu_exporter_version_info{exporterVersion="v7.3.0"} 1\n'
        'node_base_info{driverVersion="25.2.0",exporterVersion="v7.3.0"} 1\n'
    )
    found = values(parse_npu_exporter(page, NOW))
    assert (found["npu_chips", ()], found["npu_cards", ()]) == (2.0, 1.0)
    assert found["npu_exporter_info", labels(version="v7.3.0", driver="25.2.0")] == 1.0


def test_an_old_exporter_joins_the_containers_names_and_has_no_pod_labels() -> None:
    page = (
        'npu_chip_info_name{id="3",name="910A-Ascend-V1",vdie_id="D"} 1\n'
        'npu_chip_info_power{id="3",vdie_id="D"} 70.5\n'
        'npu_container_info{containerID="c0ffee",containerName="llm_engine-0_engine",npuID="3",vdie_id="D"} 1\n'
        'container_npu_used_memory{container_name="engine",id="3",namespace="llm",pod_name="engine-0"} 100\n'
    )
    found = values(parse_npu_exporter(page, NOW))
    device = labels(npu="3", chip="0", name="910A-Ascend-V1")
    assert found["npu_power_watts", device] == 70.5
    assert found["npu_used_by", labels(**dict(device), **ENGINE)] == 1.0
    assert found["npu_container_memory_used_bytes", labels(**dict(device), **ENGINE)] == 100 * 1024**2


def test_a_slice_of_a_device_has_its_own_readings() -> None:
    page = (
        'vnpu_pod_used_memory{id="0",v_dev_id="100",aicore_count="4",model_name="310P3",namespace="llm",'
        'pod_name="engine-0",container_name="engine",is_virtual="true"} 2048\n'
    )
    found = values(parse_npu_exporter(page, NOW))
    slice_ = labels(npu="0", chip="0", name="310P3", vnpu="100", **ENGINE)
    assert found["npu_vnpu_memory_used_bytes", slice_] == 2048 * 1024


def test_the_figures_of_single_links_are_another_sources() -> None:
    page = PAGE + 'npu_chip_roce_tx_err_pkt_num{id="0"} 3\n'
    assert values(parse_npu_exporter(page, NOW)) == values(parse_npu_exporter(PAGE, NOW))


def test_every_row_names_a_metric_and_its_labels() -> None:
    names = [name for row in ROWS for name, _ in row.families()]
    assert len(names) == len(set(names))
    for row in ROWS:
        metric = METRICS[row.canonical]
        numbered = {place for place in ("link", "lane") if f"{{{place}}}" in row.theirs}
        carried = {label for label, _ in row.more} | numbered
        carried |= {"die", "port"} if row.ported else set()
        carried |= {"namespace", "pod", "container"} if row.placed else set()
        assert carried <= set(metric.labels), row


def test_every_documented_series_is_mapped(corpus: Path, say: Callable[[str], None]) -> None:
    documented = documented_names(corpus / "exporter" / "npu_exporter_metrics.tsv")
    known = {name for row in ROWS for name, _ in row.families()} | {*MACHINE, *ERROR_CODES, *PLACEHOLDERS}
    assert documented - known == set()
    readings = [name for name in documented if name not in PLACEHOLDERS]
    for name in readings:
        page = f'{name}{{id="0",model_name="910B3"}} 1\nnpu_chip_info_name{{id="0",model_name="910B3"}} 1\n'
        quick, links = parse_npu_exporter(page, NOW), parse_npu_exporter_links(page, NOW)
        found = {sample.name for sample in quick.samples + links.samples} - {"npu_info"}
        assert found, f"{name} gives no canonical sample"
    say(f"npu-exporter: {len(documented)} documented names, {len(readings)} readings, all mapped")


def documented_names(table: Path) -> set[str]:
    """The names of the reference's table; X, Y and Z in one stand for numbers."""
    names = re.findall(
        r"\b(?:npu_chip|npu_exporter|npu_container|node_base|machine|container_npu|vnpu_pod)_[A-Za-z0-9_]+",
        table.read_text(),
    )
    return {name.replace("_X", "_1").replace("_Y", "_0").replace("_Z", "_2") for name in names}


def test_scrapes_a_server() -> None:
    with page_server(PageServer(PAGE.encode())) as server:
        collector = NpuExporterCollector(SharedPage(PageSource(f"{server.url}/metrics")))
        samples = asyncio.run(collector.collect(NOW))
        server.page = b"up 1\n"
        with pytest.raises(CollectorError, match="no device"):
            asyncio.run(collector.collect(NOW))
    assert samples == parse_npu_exporter(PAGE, NOW).samples
    assert collector.notes == ()


def test_a_page_of_the_same_lines_is_read_as_a_new_one() -> None:
    pages = [
        PAGE,
        re.sub(r"\} (\d+)", r"} 1\1", PAGE),
        re.sub(r"\} \S+", "} 0", PAGE),
        re.sub(r"\} \S+", "} 4294967295", PAGE),
        PAGE.replace('id="1"', 'id="7"'),
        PAGE,
    ]
    with page_server(PageServer()) as server:
        collector = NpuExporterCollector(SharedPage(PageSource(server.url)))
        for page in pages:
            server.page = page.encode()
            alone = parse_npu_exporter(page, NOW)
            assert asyncio.run(collector.collect(NOW)) == alone.samples
            assert collector.notes == alone.notes
