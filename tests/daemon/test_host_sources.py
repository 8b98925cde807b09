"""What the sources of the host take from the devices' readings, and which of them there are."""

from __future__ import annotations

import pytest

from collectors.history import History
from collectors.host.affinity import Device
from collectors.npu_smi import program as npu_smi_program
from collectors.npu_smi.program import NpuSmi
from collectors.sample import Sample, labels
from daemon.config_file import read
from daemon.host_sources import FIRST_PID_NAMESPACE, bus_ids, host_collectors, near_cpus, npu_nodes


def history() -> History:
    found = History()
    found.add(
        [
            Sample("npu_info", 1.0, 1.0, labels(npu="0", chip="0", name="910B4", bus_id="0000:C1:00.0")),
            Sample("npu_info", 1.0, 1.0, labels(npu="1", chip="0", name="910B4")),
            Sample(
                "npu_process_memory_bytes", 5.0, 1.0, labels(npu="0", chip="0", pid="512", process="VLLM")
            ),
            Sample(
                "npu_process_memory_bytes", 5.0, 1.0, labels(npu="2", chip="0", pid="512", process="VLLM")
            ),
            Sample(
                "npu_process_memory_bytes", 5.0, 1.0, labels(npu="9", chip="0", pid="700", process="VLLM")
            ),
            Sample("npu_numa_node", 6.0, 1.0, labels(npu="0", chip="0", name="910B4")),
            Sample("npu_numa_node", 4.0, 1.0, labels(npu="2", chip="0", name="910B4")),
        ],
        "npu_smi",
    )
    return found


def test_the_bus_ids_that_are_known() -> None:
    assert bus_ids(history()) == {Device("0", "0", "910B4"): "0000:C1:00.0"}


def test_the_cpus_that_npu_smi_shows_near_the_npus() -> None:
    npu_smi = NpuSmi()
    assert near_cpus(None) == near_cpus(npu_smi) == {}
    npu_smi.near_cpus = {npu_smi_program.Device("0", "0", "910B4", "B"): (0, 1, 2, 8)}
    assert near_cpus(npu_smi) == {Device("0", "0", "910B4"): "0-2,8"}


def test_the_nodes_of_a_processs_npus() -> None:
    assert npu_nodes(history(), lambda: FIRST_PID_NAMESPACE) == {512: frozenset({4, 6})}


@pytest.mark.parametrize("namespace", ["pid:[4026532501]", None])
def test_process_numbers_of_a_container_are_not_the_devices(namespace: str | None) -> None:
    assert npu_nodes(history(), lambda: namespace) == {}


def test_the_sources_by_configuration() -> None:
    def names(text: str) -> list[str]:
        collect = read(text, "a file").collect
        return [source.name for source in host_collectors(collect, History(), lambda: None)]

    assert names("") == [
        "host", "numa", "engine_processes", "engine_threads", "engine_pages", "host_settings", "interrupts",
    ]  # fmt: skip
    off = "".join(f"  {name}: {{enabled: false}}\n" for name in names(""))
    assert names(f"collect:\n{off}") == []
    assert names(f"collect:\n{off}  stalled_cycles: {{enabled: true}}\n") == ["stalled_cycles"]
