"""What npu-smi said becomes canonical samples, and unknown becomes none."""

from __future__ import annotations

from pathlib import Path

from collectors.metrics import METRICS
from collectors.npu_smi.keyed import ProcessMemory, parse_keyed
from collectors.npu_smi.program import Device
from collectors.npu_smi.samples import (
    section_samples,
    table_samples,
    unlisted_process_samples,
    watch_samples,
)
from collectors.npu_smi.table import parse_table
from collectors.npu_smi.watch import parse_watch
from collectors.sample import Labels, Sample, labels

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"
NOW = 1_700_000_000.0
CHIP = Device("1", "0", "910B3", "B")
OWN = labels(npu="1", chip="0", name="910B3")


def found(samples: list[Sample]) -> dict[tuple[str, Labels], object]:
    for sample in samples:
        assert {name for name, _ in sample.labels} <= set(METRICS[sample.name].labels), sample.name
        assert sample.time == NOW
    return {(sample.name, sample.labels): sample.value for sample in samples}


def of_fixture(name: str, device: Device = CHIP) -> dict[tuple[str, Labels], object]:
    keyed = parse_keyed((FIXTURES / f"{name}.txt").read_text())
    return found([sample for one in keyed.sections for sample in section_samples(one, device, NOW)])


def with_label(**more: str) -> Labels:
    return labels(npu="1", chip="0", name="910B3", **more)


def test_health_that_is_not_known_is_neither_good_nor_bad() -> None:
    text = (FIXTURES / "b_910b.txt").read_text().replace("Alarm  ", "UNKNOWN")
    samples = found(table_samples(parse_table(text), NOW))
    second = labels(npu="5", chip="0", name="910ProB")
    assert ("npu_health_ok", second) not in samples
    assert samples["npu_health_state", labels(npu="5", chip="0", name="910ProB", state="UNKNOWN")] == 1.0


def test_the_watch_of_a_chip_with_hbm() -> None:
    row = parse_watch((FIXTURES / "watch_a3.txt").read_text()).rows[0]
    samples = found(watch_samples(row, Device("4", "0", "Ascend910", "B'"), NOW))
    own = labels(npu="4", chip="0", name="Ascend910")
    assert samples["npu_hbm_bandwidth_usage_ratio", own] == 0.38
    assert samples["npu_mem_bandwidth", own] == 38.0
    assert samples["npu_sm_activity", own] == 65.0
    assert samples["npu_cube_usage_ratio", own] == 0.59
    assert len(samples) == 10, "the share of memory in use is in the table, in bytes"


def test_the_watch_of_a_chip_whose_memory_is_ddr_or_not_known() -> None:
    row = parse_watch((FIXTURES / "watch_a3.txt").read_text()).rows[1]
    samples = found(watch_samples(row, Device("4", "1", "310P3", "A"), NOW))
    own = labels(npu="4", chip="1", name="310P3")
    assert samples["npu_memory_bandwidth_usage_ratio", own] == 0.36
    assert ("npu_hbm_bandwidth_usage_ratio", own) not in samples
    assert ("npu_power_watts", own) not in samples, "'-' is not a zero"
    names = {name for name, _ in found(watch_samples(row, None, NOW))}
    assert not [name for name in names if "bandwidth" in name]


def test_clocks() -> None:
    samples = of_fixture("t_common_mcu")
    assert samples["npu_aicore_frequency_hertz", OWN] == 1.2e9
    assert samples["npu_aicore_rated_frequency_hertz", OWN] == 1.65e9
    assert len(samples) == 2, "temperature and power are the table's and the watch's"


def test_ecc_errors_and_isolated_pages() -> None:
    samples = of_fixture("t_ecc")
    assert samples["npu_hbm_ecc_errors_total", with_label(bits="single")] == 4.0
    assert samples["npu_hbm_ecc_errors_total", with_label(bits="double")] == 1.0
    assert samples["npu_hbm_isolated_pages", with_label(bits="single")] == 3.0
    assert len(samples) == 4


def test_faults_that_are_active() -> None:
    assert of_fixture("t_health_alarm") == {
        ("npu_error_active", with_label(code="80E01801")): 1.0,
        ("npu_error_active", with_label(code="80CB8002")): 1.0,
    }


def test_links_are_added_up() -> None:
    assert of_fixture("t_hccs") == {
        ("npu_hccs_tx_bytes_total", OWN): 1200.0,
        ("npu_hccs_rx_bytes_total", OWN): 1260.0,
        ("npu_hccs_retries_total", OWN): 6.0,
        ("npu_hccs_errors_total", OWN): 2.0,
        ("npu_hccs_ok", OWN): 0.0,
    }


def test_links_whose_health_is_not_known_are_neither_healthy_nor_ill() -> None:
    [section] = parse_keyed("NPU ID : 0\nChip ID : 0\nhccs health status : UNKNOWN\n").sections
    assert section_samples(section, CHIP, NOW) == []


def test_bandwidth_of_a_memory_that_is_not_there_is_absent() -> None:
    def names(capacity: int) -> set[str]:
        text = f"DDR Capacity(MB) : {capacity}\nDDR Bandwidth Usage Rate(%) : 0\n"
        [section] = parse_keyed(text).sections
        return {sample.name for sample in section_samples(section, CHIP, NOW)}

    assert names(0) == set()
    assert names(1024) == {"npu_memory_bandwidth_usage_ratio"}


def test_processes_that_the_table_has_no_room_for() -> None:
    device = Device("1", "0", "910B3", "B", pids=frozenset({"5"}))
    processes = [ProcessMemory("1", None, "5", "a", 1.0), ProcessMemory("1", None, "6", None, 2.0)]
    processes.append(ProcessMemory("1", None, "7", "c", None))
    assert found(unlisted_process_samples(processes, device, NOW)) == {
        ("npu_process_memory_bytes", with_label(pid="6", process="")): 2.0
    }
