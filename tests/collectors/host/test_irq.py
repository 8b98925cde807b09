"""The NPUs' lines of /proc/interrupts are found, and a count goes to the CPU of its column."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.host.files import SystemFiles
from collectors.host.irq import (
    Interrupt,
    InterruptsError,
    IrqAffinity,
    parse_interrupts,
    read_irq_affinity,
)
from sim.host_tree import HostTree
from tests.prepare import ROOT

TEXT = (ROOT / "tests" / "collectors" / "fixtures" / "host" / "interrupts.txt").read_text()


def test_the_npus_handlers_with_cpus_by_the_header() -> None:
    assert list(parse_interrupts(TEXT.splitlines())) == [
        Interrupt("1113", "sq_send_trigger_irq", {1: 7, 24: 550000}),
        Interrupt("1114", "cq_update_irq", {25: 420000}),
        Interrupt("1115", "devdrv-msg, trs-mbox", {0: 3}),
        Interrupt("1370", "sq_send_trigger_irq", {0: 15, 1: 16}),
    ]


def test_an_interrupt_asked_for_by_its_number() -> None:
    found = list(parse_interrupts(TEXT.splitlines(), {"1371"}))
    assert Interrupt("1371", "vendor_special", {2: 5}) in found
    assert len(found) == 5


def test_all_of_them_and_those_without_a_number() -> None:
    found = list(parse_interrupts(TEXT.splitlines(), pattern=None))
    assert [one.irq for one in found if isinstance(one, Interrupt)][-1] == "IPI0"
    assert not [one for one in found if isinstance(one, str)], "ERR has one count for the whole machine"


@pytest.mark.parametrize("text", ["", "\n\n", "1113:  5  sq_send_trigger_irq\n", "CPU0 cpu1\n"])
def test_without_a_header_no_count_has_a_cpu(text: str) -> None:
    with pytest.raises(InterruptsError, match=r"no header of CPUs|empty"):
        list(parse_interrupts(text.splitlines()))


def test_a_cut_line_is_told() -> None:
    lines = [
        "     CPU0   CPU1   CPU2",
        " 77:   1   2  sq_send_trigger_irq",
        "sq_send_trigger_irq",
        " 78: 1 2 3",
    ]
    assert list(parse_interrupts(lines, {"78"})) == [
        "interrupt 77: 2 counts for 3 CPUs",
        Interrupt("78", "", {0: 1, 1: 2, 2: 3}),
    ]
    assert list(parse_interrupts([lines[0], "a line without sense"], pattern=None)) == [
        "no interrupt: 'a line without sense'"
    ]


@given(
    st.lists(st.integers(0, 511), min_size=1, max_size=40, unique=True).map(sorted),
    st.data(),
)
def test_any_table_gives_back_its_counts(cpus: list[int], data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(cpus), max_size=len(cpus)))
    header = "           " + " ".join(f"CPU{cpu:<8}" for cpu in cpus)
    line = (
        "2113: " + " ".join(f"{count:10}" for count in counts) + "   ITS-MSI 6291460 Edge      cq_update_irq"
    )
    expected = {cpu: count for cpu, count in zip(cpus, counts, strict=True) if count}
    assert list(parse_interrupts([header, line])) == [Interrupt("2113", "cq_update_irq", expected)]


@given(st.integers(0, len(TEXT)))
def test_no_cut_invents_a_count(at: int) -> None:
    whole = {
        one.irq: one
        for one in parse_interrupts(TEXT.splitlines(), pattern=None)
        if isinstance(one, Interrupt)
    }
    try:
        found = list(parse_interrupts(TEXT[:at].splitlines(), pattern=None))
    except InterruptsError:
        return
    for one in found[:-1]:
        assert isinstance(one, Interrupt)
        assert len(one.counts) <= 6 and (one.counts == whole[one.irq].counts or at < 80)


def test_affinity(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.write("/proc/irq/1113/smp_affinity_list", "24-47\n")
    tree.write("/proc/irq/1113/effective_affinity_list", "24\n")
    files = SystemFiles(tmp_path)
    assert read_irq_affinity(files, "1113") == IrqAffinity(frozenset(range(24, 48)), frozenset({24}))
    assert read_irq_affinity(files, "9") == IrqAffinity(None, None)
    assert files.notes == ()


def test_this_machine() -> None:
    text = Path("/proc/interrupts").read_text()
    found = list(parse_interrupts(text.splitlines(), pattern=None))
    assert found and all(isinstance(one, Interrupt) for one in found)
    assert any(one.counts for one in found if isinstance(one, Interrupt))
