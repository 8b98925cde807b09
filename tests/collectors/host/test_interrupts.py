"""An NPU's interrupts are counted as its own, and those taken far from it too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.host.affinity import Device
from collectors.host.interrupts import MAX_HANDLERS, InterruptsCollector
from collectors.sample import CollectorError, Labels, labels
from sim.host_tree import HostTree
from tests.prepare import ROOT

TEXT = (ROOT / "tests" / "collectors" / "fixtures" / "host" / "interrupts.txt").read_text()
FIRST, SECOND = Device("0", "0", "910B4"), Device("1", "0", "910B4")


@pytest.fixture
def laid(tmp_path: Path) -> HostTree:
    tree = HostTree(tmp_path)
    tree.nodes(2, 24)
    tree.device("0000:c1:00.0", 1, "24-47", [1113, 1114])
    tree.device("0000:c2:00.0", -1, "0-47", [1370, 1371])
    tree.write("/proc/interrupts", TEXT)
    return tree


def collect(source: InterruptsCollector) -> dict[tuple[str, Labels], float]:
    found = {}
    for sample in asyncio.run(source.collect(1.0)):
        assert isinstance(sample.value, float)
        found[sample.name, sample.labels] = sample.value
    return found


def collector(laid: HostTree) -> InterruptsCollector:
    return InterruptsCollector(
        devices=lambda: {FIRST: "0000:C1:00.0", SECOND: "0000:C2:00.0"}, root=laid.root
    )


def test_by_device_and_away_from_it(laid: HostTree) -> None:
    found = collect(collector(laid))
    assert found["npu_interrupts_total", FIRST.labels()] == 7 + 550000 + 420000
    assert found["npu_interrupts_off_node_total", FIRST.labels()] == 7
    assert found["npu_interrupts_total", SECOND.labels()] == 15 + 16 + 5
    assert ("npu_interrupts_off_node_total", SECOND.labels()) not in found, "its node is not known"


def test_by_handler_and_node(laid: HostTree) -> None:
    found = collect(collector(laid))
    name = "trimtab_host_npu_interrupts_total"
    assert found[name, labels(handler="sq_send_trigger_irq", node="0")] == 7 + 15 + 16
    assert found[name, labels(handler="sq_send_trigger_irq", node="1")] == 550000
    assert found[name, labels(handler="devdrv-msg, trs-mbox", node="0")] == 3


def test_a_host_without_npus_has_no_samples(laid: HostTree) -> None:
    laid.write("/proc/interrupts", "   CPU0\n 1:  5  IO-APIC  ttyS0\n")
    assert collect(InterruptsCollector(root=laid.root)) == {}


def test_handlers_are_few(laid: HostTree) -> None:
    lines = [f"{irq}: 1 ITS-MSI devdrv-{irq}" for irq in range(200)]
    laid.write("/proc/interrupts", "\n".join(["  CPU0", *lines]))
    found = collect(InterruptsCollector(root=laid.root))
    assert len(found) == MAX_HANDLERS + 1
    assert found["trimtab_host_npu_interrupts_total", labels(handler="other", node="0")] == 200 - MAX_HANDLERS


def test_damage_is_a_note_and_no_table_is_an_error(laid: HostTree) -> None:
    laid.write("/proc/interrupts", TEXT.replace("420000   ITS", "ITS"))
    source = collector(laid)
    assert collect(source)["npu_interrupts_total", FIRST.labels()] == 7 + 550000
    assert source.notes == ("/proc/interrupts: interrupt 1114: 5 counts for 6 CPUs",)
    laid.write("/proc/interrupts", "")
    with pytest.raises(CollectorError, match="/proc/interrupts: the text is empty"):
        collect(source)
    (laid.root / "proc/interrupts").unlink()
    (laid.root / "proc/interrupts").mkdir()
    with pytest.raises(CollectorError, match="cannot be read to its end: /proc/interrupts: Is a directory"):
        collect(source)


def test_a_line_without_end(laid: HostTree) -> None:
    with (laid.root / "proc/interrupts").open("a") as file:
        file.write("9999: " + "7 " * 5_000_000)
    assert collect(collector(laid))["npu_interrupts_total", SECOND.labels()] == 36


def test_this_machine() -> None:
    source = InterruptsCollector()
    collect(source)
    assert source.notes == ()


def test_where_interrupts_are_led_is_seen_before_they_are_taken(laid: HostTree) -> None:
    name = "npu_interrupts_led_off_node"
    assert name not in {found for found, _ in collect(collector(laid))}, "no /proc/irq, as in a container"
    laid.write("/proc/irq/1113/smp_affinity_list", "0-47\n")
    laid.write("/proc/irq/1113/effective_affinity_list", "30\n")
    laid.write("/proc/irq/1114/smp_affinity_list", "24-47\n")
    laid.write("/proc/irq/1370/smp_affinity_list", "0-47\n")
    found = collect(collector(laid))
    assert found[name, FIRST.labels()] == 0.0
    assert (name, SECOND.labels()) not in found, "its node is not known"
    laid.write("/proc/irq/1113/effective_affinity_list", "3\n")
    laid.write("/proc/irq/1114/smp_affinity_list", "0-47\n")
    assert collect(collector(laid))[name, FIRST.labels()] == 2.0
