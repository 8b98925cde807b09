"""Settings of a whole laid host: files written, read back and put back; none beside another engine."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from change.host import HostChange, HostError
from change.host_steps import change_host, rollback_host
from change.journal import Journal
from collectors.host.binding import parse_binding
from daemon.host.files import FileRefused, HostFiles
from store import open_store
from tests.daemon.host.laid import LaidHost

FILES = {
    "transparent_hugepages=never": "/sys/kernel/mm/transparent_hugepage/enabled",
    "khugepaged_defrag=0": "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
    "cpu_governor=performance": "/sys/devices/system/cpu/cpufreq/policy24/scaling_governor",
    "numa_balancing=0": "/proc/sys/kernel/numa_balancing",
    "swappiness=10": "/proc/sys/vm/swappiness",
    "sched_migration_cost_ns=5000000": "/sys/kernel/debug/sched/migration_cost_ns",
    "hugepages=64": "/proc/sys/vm/nr_hugepages",
}


@pytest.mark.parametrize("asked", FILES)
def test_a_setting_is_written_read_back_and_put_back(laid: LaidHost, asked: str) -> None:
    knob, _, value = asked.partition("=")
    hand, before = laid.hand(), laid.text(FILES[asked])
    was = asyncio.run(hand.read(knob))
    assert was.undo is not None
    assert asyncio.run(hand.apply(HostChange(knob, value))).value == value
    assert laid.text(FILES[asked]) == value
    assert asyncio.run(laid.hand().restore(knob, was.undo)).value == was.value
    assert laid.text(FILES[asked]) in (before, was.value)


def test_governors_that_differ_are_mixed_and_each_gets_its_own_back(laid: LaidHost) -> None:
    hand = laid.hand()
    was = asyncio.run(hand.read("cpu_governor"))
    assert was.value == "mixed"
    assert was.undo is not None
    asyncio.run(hand.apply(HostChange("cpu_governor", "performance")))
    asyncio.run(hand.restore("cpu_governor", was.undo))
    folder = "/sys/devices/system/cpu/cpufreq"
    texts = [laid.text(f"{folder}/policy{number}/scaling_governor") for number in (0, 24)]
    assert texts == ["schedutil", "ondemand"]


def test_interrupts_leave_the_compute_cores_and_come_back(laid: LaidHost) -> None:
    hand = laid.hand()
    assert "irq_placement" not in asyncio.run(hand.choices())
    asyncio.run(hand.apply(HostChange("placement", "split:4")))
    assert asyncio.run(hand.choices())["irq_placement"] == ("as_found", "off_compute")
    was = asyncio.run(hand.read("irq_placement"))
    assert was.undo is not None
    assert asyncio.run(hand.apply(HostChange("irq_placement", "off_compute"))).value == "off_compute"
    lists = {irq: laid.text(f"/proc/irq/{irq}/smp_affinity_list") for irq in (24, 25, 26, 27)}
    assert lists == {24: "0-107,120-191", 25: "144-167", 26: "0-107,120-191", 27: "0-23"}
    asyncio.run(hand.restore("irq_placement", was.undo))
    lists = {irq: laid.text(f"/proc/irq/{irq}/smp_affinity_list") for irq in (24, 25, 26, 27)}
    assert lists == {24: "0-191", 25: "144-167", 26: "108-119", 27: "0-23"}


def test_interrupts_that_vllm_ascend_bound_stay_there(laid: LaidHost) -> None:
    laid.binding = parse_binding(
        [
            "INFO NPU2: main=[108, 109] acl=[110] release=[111]",
            "INFO NPU2(PCI 0000:81:00.0): sq_send_trigger_irq IRQ_ID=26 -> CPU108, cq_update_irq IRQ_ID=27 -> CPU109",
        ]
    )
    asyncio.run(laid.hand().apply(HostChange("irq_placement", "off_compute")))
    assert laid.text("/proc/irq/26/smp_affinity_list") == "108-119"
    assert laid.text("/proc/irq/24/smp_affinity_list") == "0-107,111-191"


def test_a_plan_warns_of_irqbalance(laid: LaidHost) -> None:
    hand, change = laid.hand(), HostChange("irq_placement", "off_compute")
    assert "nothing" in asyncio.run(hand.preview(change))[0]
    asyncio.run(hand.apply(HostChange("placement", "split:4")))
    assert len(asyncio.run(hand.preview(change))) == 1
    laid.tree.process(50, "irqbalance")
    assert "irqbalance" in asyncio.run(hand.preview(change))[1]


def test_an_interrupt_the_kernel_spreads_itself_is_passed_over(
    laid: LaidHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = HostFiles.write

    def managed(self: HostFiles, path: str, value: str) -> None:
        if "/irq/26/" in path:
            raise FileRefused(path, value, OSError(5, "Input/output error"))
        write(self, path, value)

    monkeypatch.setattr(HostFiles, "write", managed)
    hand = laid.hand()
    asyncio.run(hand.apply(HostChange("placement", "split:4")))
    reading = asyncio.run(hand.apply(HostChange("irq_placement", "off_compute")))
    assert reading.value == "off_compute"
    assert "1 more are the kernel's own" in str(reading.reason)


@pytest.mark.parametrize(
    "title",
    ["python3\0/usr/bin/vllm\0serve\0/other\0", "VLLM::EngineCore\0", "python3\0-m\0sglang.launch_server\0"],
)
def test_node_wide_knobs_are_advice_beside_another_engine(laid: LaidHost, title: str) -> None:
    laid.tree.process(800, "python3", title=title)
    hand = laid.hand()
    assert set(asyncio.run(hand.choices())) <= {"placement", "memory", "shared_memory"}
    with pytest.raises(HostError, match="another engine runs here"):
        asyncio.run(hand.apply(HostChange("swappiness", "0")))
    assert laid.text("/proc/sys/vm/swappiness") == "60"
    assert any("advice only" in line for line in asyncio.run(hand.preview(HostChange("swappiness", "0"))))
    # The engine's own threads are nobody else's.
    assert asyncio.run(hand.apply(HostChange("placement", "split:4"))).value == "split:4"


def test_a_process_with_an_npu_open_is_another_engine(laid: LaidHost) -> None:
    laid.tree.process(801, "python3", title="python3\0train.py\0")
    folder = laid.tree.root / "proc/801/fd"
    folder.mkdir()
    (folder / "7").symlink_to("/dev/davinci3")
    with pytest.raises(HostError, match="NPU 3 open"):
        asyncio.run(laid.hand().apply(HostChange("swappiness", "0")))


def test_in_a_container_node_wide_knobs_are_advice_for_another_engine_could_be_there_unseen(
    laid: LaidHost,
) -> None:
    laid.namespace("pid:[4026532301]")
    hand = laid.hand()
    assert set(asyncio.run(hand.choices())) <= {"placement", "memory", "shared_memory"}
    with pytest.raises(HostError, match="hostPID"):
        asyncio.run(hand.apply(HostChange("swappiness", "0")))
    assert laid.text("/proc/sys/vm/swappiness") == "60"
    assert asyncio.run(hand.apply(HostChange("placement", "split:4"))).value == "split:4"


def test_node_wide_knobs_are_advice_where_a_process_cannot_be_looked_into(
    laid: LaidHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    listdir = os.listdir

    def closed(path: Path) -> list[str]:
        if str(path).endswith("proc/900/fd"):
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", closed)
    with pytest.raises(HostError, match="open files of process 900 cannot be read"):
        asyncio.run(laid.hand().apply(HostChange("swappiness", "0")))
    assert laid.text("/proc/sys/vm/swappiness") == "60"


def test_the_way_back_is_open_beside_another_engine(laid: LaidHost) -> None:
    hand = laid.hand()
    was = asyncio.run(hand.read("swappiness"))
    assert was.undo is not None
    asyncio.run(hand.apply(HostChange("swappiness", "0")))
    laid.tree.process(800, "python3", title="VLLM::EngineCore\0")
    assert asyncio.run(hand.restore("swappiness", was.undo)).value == "60"


def test_a_change_of_node_and_engine_is_taken_back_though_the_engine_is_gone(laid: LaidHost) -> None:
    store = open_store("sqlite:///:memory:")
    journal, hand = Journal(store, "http://127.0.0.1:8000"), laid.hand()
    changes = [
        HostChange("swappiness", "0"),
        HostChange("placement", "split:4"),
        HostChange("irq_placement", "off_compute"),
    ]

    async def scene() -> str | None:
        await change_host(hand, journal, changes, boot_id="b00t-1", kind="manual", actor="cli", now=1.0)
        laid.main = None
        entry = await rollback_host(laid.hand(), journal, 1, 2.0, boot_id="b00t-1", actor="cli")
        return entry.outcome

    assert asyncio.run(scene()) == "done"
    assert laid.text("/proc/sys/vm/swappiness") == "60"
    assert laid.text("/proc/irq/26/smp_affinity_list") == "108-119"
    store.close()


def test_a_knob_that_is_not_allowed_is_neither_offered_nor_changed(laid: LaidHost) -> None:
    hand = laid.hand(allowed=("placement",))
    assert set(asyncio.run(hand.choices())) == {"placement"}
    with pytest.raises(HostError, match=r"host\.knobs"):
        asyncio.run(hand.apply(HostChange("memory", "node:4")))
    assert asyncio.run(hand.read("memory")).value == "as_found"


def test_a_value_that_is_none_is_refused(laid: LaidHost) -> None:
    with pytest.raises(HostError, match="expected always or madvise or never"):
        asyncio.run(laid.hand().apply(HostChange("transparent_hugepages", "off")))


def test_a_setting_this_kernel_does_not_have_is_unknown_and_no_file_is_made(
    laid: LaidHost, tmp_path: Path
) -> None:
    (laid.tree.root / "proc/sys/kernel/numa_balancing").unlink()
    reading = asyncio.run(laid.hand().read("numa_balancing"))
    assert (reading.value, reading.undo) == (None, None)
    with pytest.raises(HostError, match="does not have it"):
        HostFiles(tmp_path).write("/proc/sys/kernel/numa_balancing", "0")
    assert not (tmp_path / "proc/sys/kernel/numa_balancing").exists()
