"""The driver's kernel lines and the records of /dev/kmsg."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.kernel import KernelRecord, parse_kernel, parse_kmsg
from collectors.logs.line import Line


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (
            "[ 8123.456789] [ascend] [ERROR] [devmm] [devmm_fault 438] <kworker/u16:1:71,88> Vm fault. (devid=1)",
            Line(
                "kernel",
                "Vm fault. (devid=1)",
                "error",
                "8123.456789",
                "devmm",
                71,
                "kworker/u16:1",
                origin="devmm_fault:438",
            ),
        ),
        (
            "<5>[8123.456789] [ascend] [ERROR] [drv_pcie] [devdrv_err 177] <kworker/32:0:71:71> the ptr is: 0",
            Line(
                "kernel",
                "the ptr is: 0",
                "error",
                "8123.456789",
                "drv_pcie",
                71,
                "kworker/32:0",
                origin="devdrv_err:177",
            ),
        ),
        (
            "[ascend] [drv_pcie] [INFO] [devdrv_probe 90] probed",
            Line("kernel", "probed", "info", None, "drv_pcie", origin="devdrv_probe:90"),
        ),
        ("[ascend] [icm]    icm_send  Wait", Line("kernel", "  icm_send  Wait".strip(), module="icm")),
        ("[ascend] [ERROR] dms_get failed", Line("kernel", "dms_get failed", "error")),
        ("[8123.456789] NMI watchdog: x", Line("kernel", "NMI watchdog: x", stamp="8123.456789")),
    ],
)
def test_a_kernel_line(raw: str, line: Line) -> None:
    found = parse_kernel(raw)
    assert found is not None
    assert replace(found, text=found.text.strip()) == line


def test_stamps_for_people() -> None:
    line = Line("kernel", "x", stamp="Tue Feb  3 04:05:06 2026")
    assert parse_kernel("[Tue Feb  3 04:05:06 2026] x") == line
    assert parse_kernel("Feb  3 04:05:06 host-7 kernel: x") == Line("kernel", "x", stamp="Feb  3 04:05:06")
    syslog = parse_kernel("Feb  3 04:05:06 host-7 kernel: [ 8123.456789] [ascend] [ERROR] [a] x")
    assert syslog == Line("kernel", "x", "error", "8123.456789", "a")


def test_what_is_no_kernel_line() -> None:
    assert parse_kernel("[INFO] text") is None
    assert parse_kernel("ascend") is None


def test_a_record() -> None:
    text = (
        r"5,1234,8123456789,-;[ascend] [ERROR] [a] caf\xc3\xa9 \xff"
        + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:80:00.0\n"
    )
    assert parse_kmsg(text) == KernelRecord(1234, 8123.456789, "notice", "[ascend] [ERROR] [a] café \\xff")
    # Facility bits above the priority, and a caller's field.
    assert parse_kmsg("30,7,5,-,caller=T71;x") == KernelRecord(7, 5e-6, "info", "x")
    assert parse_kmsg("no record") is None


@given(st.text())
def test_any_text_is_a_record_or_not(text: str) -> None:
    parse_kmsg(text)
    parse_kmsg(f"6,1,2,-;{text}")
    parse_kernel(text)
    parse_kernel(f"[ascend] {text}")
