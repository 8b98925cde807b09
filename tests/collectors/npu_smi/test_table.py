"""The table is read by its headers; what cannot be read is told, and no number is made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.npu_smi.cells import MEBIBYTE, Usage
from collectors.npu_smi.table import Chip, Process, Table, TableError, parse_table
from tests.collectors.npu_smi.table_text import Running, Shown, Style, print_table

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"


WHOLE = (FIXTURES / "b_910b.txt").read_text()


def read(name: str) -> Table:
    return parse_table((FIXTURES / f"{name}.txt").read_text())


def mib(used: float, total: float) -> Usage:
    return Usage(used * MEBIBYTE, total * MEBIBYTE)


def test_layout_a_has_ddr_memory_and_a_device_column() -> None:
    table = read("a_310p")
    assert (table.layout, table.tool_version, table.notes) == ("A", "23.0.3", ())
    assert table.chips[0] == Chip(
        npu="3",
        chip="0",
        name="310P3",
        health="OK",
        bus_id="0000:02:00.0",
        temperature_celsius=47.0,
        aicore_usage_ratio=0.31,
        memory=mib(2210, 44280),
        hugepages=Usage(12.0, 15.0),
    )


def test_two_chips_may_share_a_bus_id_and_numbers_may_be_large() -> None:
    assert [(chip.npu, chip.chip) for chip in read("a_310p").chips] == [("3", "0"), ("3", "1"), ("2144", "0")]


def test_the_oldest_layout_has_no_huge_pages() -> None:
    [chip] = read("a_310_no_hugepages").chips
    assert chip.power_watts == 11.4
    assert chip.hugepages is None
    assert chip.memory == mib(1800, 8192)


def test_layout_b_has_hbm_and_a_process_table() -> None:
    table = read("b_910b")
    assert (table.layout, table.driver_version, table.notes) == ("B", "24.1.rc3.7", ())
    first, second = table.chips
    assert first.hbm == mib(59910, 65536)
    assert first.memory == mib(0, 0), "as printed: whether that is a memory is not the table's to say"
    assert (second.health, second.power_watts, second.memory) == ("Alarm", None, mib(2387, 13553))
    assert table.processes == (
        Process("0", "0", "40211", "VLLM::EngineCor", 55300 * MEBIBYTE),
        Process("0", "0", "40305", "python3", 210 * MEBIBYTE),
    )


def test_the_wide_table_with_a_shell_prompt_and_container_pids() -> None:
    table = read("b_26_wide")
    assert table.tool_version == "26.1.0.b061"
    assert table.processes[0].name == "npu-smi Version: 1", "a row is not the title because of its words"
    assert table.notes == ()


@pytest.mark.parametrize(
    "line",
    [
        "npu-smi info",
        "root@node:/# npu-smi  info",
        "[root@node ~]$ npu-smi info",
        "# npu-smi info -t topo | tee out",
        "# npu-smi info watch -i 0 -c 0 -s pt >out 2>&1",
        "npu-smi info; date",
        "user@node:~$",
        "[root@node ~]#",
    ],
)
def test_the_shells_prompt_is_no_damage(line: str) -> None:
    assert parse_table(f"{line}\n{WHOLE}\n{line}").notes == ()


@pytest.mark.parametrize(
    "line",
    [
        "npu-smi info failed: device 3 lost",
        "npu-smi info watch failed: device 3 lost",
        "npu-smi info -t ecc failed: device 3 lost",
        "npu-smi info -8005",
        "user@node lost card 3 #",
        "card 3 lost, npu-smi info",
    ],
)
def test_words_that_only_look_like_a_prompt_are_told(line: str) -> None:
    assert parse_table(f"{line}\n{WHOLE}").notes == (f"line 1: not a row of the table: {line}",)


def test_a_die_printed_twice_is_taken_once_and_told() -> None:
    table = read("a3_two_dies")
    assert [(chip.chip, chip.phy_id, chip.power_watts) for chip in table.chips] == [
        ("0", "8", 171.9),
        ("1", "9", None),
    ]
    assert [note for note in table.notes if "physical id 9 is printed again" in note]


def test_the_layout_without_a_chip_column() -> None:
    table = read("c_950")
    [chip] = table.chips
    assert (table.layout, chip.npu, chip.chip) == ("C", "6", "0")
    assert (chip.overall_usage_ratio, chip.aicore_usage_ratio) == (0.37, None)


def test_damage_leaves_what_is_whole_and_is_told_row_by_row() -> None:
    table = read("damaged")
    assert {chip.npu: (chip.health, chip.temperature_celsius, chip.hbm) for chip in table.chips} == {
        "0": ("OK", 39.0, mib(1460, 44280)),  # health 0K
        "1": ("OK", None, None),  # temperature 4O, more HBM used than there is
        "3": ("OK", 40.0, mib(1479, 43693)),  # its first row is cut off at the end
        "4": ("OK", None, mib(1479, 43693)),  # a cell too few
        "6": ("OK", 41.0, mib(1480, 43693)),
        "8": ("OK", 41.0, None),  # cut off in its second row
    }
    assert [note for note in table.notes if "Health is '0K', taken for OK" in note]
    told = {int(match[1]) for note in table.notes if (match := re.match(r"line (\d+):", note))}
    assert told == {1, 8, 11, 12, 14, 15, 17, 20, 23, 27, 28, 31}
    assert table.notes[-1] == "the table is cut off: it does not end with a rule"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "printed nothing"),
        (
            (FIXTURES / "error_8005.txt").read_text(),
            "-8005: inner error, most often because the card is held by another container",
        ),
        (
            "dcmi model initialized failed, because the device is used. ret is -8020\n",
            "-8020: the card is held by another container",
        ),
        ((FIXTURES / "no_header.txt").read_text(), "without its header rows"),
        ("Invalid card id.\n", "npu-smi said: Invalid card id"),
        ("hello\n", "printed nothing that is known, but: hello"),
    ],
)
def test_no_table_is_an_error_with_the_tools_own_reason(text: str, reason: str) -> None:
    with pytest.raises(TableError, match=re.escape(reason)):
        parse_table(text)


def test_a_header_that_lost_its_unit_is_told_and_a_strange_unit_gives_no_number() -> None:
    text = print_table("B", [CHIP])
    table = parse_table(text.replace("HBM-Usage(MB)", "HBM-Usage    "))
    assert table.chips[0].hbm == mib(3397, 65536)
    assert [note for note in table.notes if "column 'HBM-Usage' shows no unit" in note]
    table = parse_table(text.replace("HBM-Usage(MB)", "HBM-Usage(GB)"))
    assert table.chips[0].hbm is None
    assert [note for note in table.notes if "column 'HBM-Usage(GB)' is not known" in note]


def test_a_row_cut_off_keeps_what_stands_whole_before_the_cut() -> None:
    text = print_table("B", [CHIP, SECOND])
    last = text.rstrip().splitlines()[-2]
    cut = text[: text.index(last)] + last[: last.index("65535")]
    found = parse_table(cut + "65")
    assert found.chips[1].aicore_usage_ratio == 0.34
    assert found.chips[1].memory == mib(0, 0)
    assert found.chips[1].hbm is None, "65 may have been 65535"
    assert [note for note in found.notes if "a row that is cut off" in note]


@pytest.mark.parametrize("layout", ["A", "B", "B'", "C"])
def test_a_cut_at_any_place_makes_no_number_up(layout: str) -> None:
    chips = (CHIP, SECOND)
    text = print_table(layout, list(chips))
    for at in range(text.index("96.4"), len(text)):
        found = parse_table(text[:at])
        no_number_is_made_up(layout, chips, found)
        assert len(found.chips) == 2 or found.notes or text[:at].rstrip()[-1] in "+="


@pytest.mark.parametrize("layout", ["A", "B", "B'", "C"])
def test_a_table_cut_at_its_right_side_keeps_what_is_whole(layout: str) -> None:
    chips = (CHIP, SECOND)
    text = print_table(layout, list(chips), None, [Running(0, 0, 7001, "python3", 100, 12)])
    widest = max(map(len, text.splitlines()))
    for width in range(1, widest):
        try:
            found = parse_table("\n".join(line[:width] for line in text.splitlines()))
        except TableError:
            assert width < 50
            continue
        no_number_is_made_up(layout, chips, found)
        assert found.notes
        for process in found.processes:
            assert process.container_pid in (None, "12") and process.pid == "7001"
    assert [chip.power_watts for chip in found.chips] == [96.4, 97.4]
    assert [chip.health for chip in found.chips] == ["OK", "OK"]


def test_a_pair_may_lack_its_first_half() -> None:
    text = print_table("A", [CHIP])
    table = parse_table(re.sub(r"12   0 / 0", "12   NA / 15609", text))
    assert table.chips[0].memory == Usage(None, 15609 * MEBIBYTE)


CHIP = Shown(0, 0, "910B3", "OK", "96.4", 37, 12, "0000:C1:00.0", (0, 0), (3397, 65536))
SECOND = Shown(1, 0, "910B3", "OK", "97.4", 38, 34, "0000:C2:00.0", (0, 0), (3398, 65535))


@st.composite
def shown(draw: st.DrawFn, npu: int) -> Shown:
    def pair(highest: int) -> tuple[int, int]:
        total = draw(st.integers(0, highest))
        return draw(st.integers(0, total)), total

    return Shown(
        npu=npu,
        chip=draw(st.integers(0, 3)),
        name=draw(st.sampled_from(["910B4-1", "910ProB", "310P3", "xxx", "910B2C"])),
        health=draw(st.sampled_from(["OK", "Warning", "Alarm", "Critical", "UNKNOWN"])),
        power=draw(st.none() | st.integers(0, 9999).map(lambda tenths: f"{tenths / 10:.1f}")),
        temperature=draw(st.integers(0, 120)),
        aicore=draw(st.integers(0, 100)),
        bus=draw(st.none() | st.integers(0, 255).map(lambda bus: f"0000:{bus:02X}:00.0")),
        memory=pair(20000),
        hbm=pair(131072),
        phy=npu,
    )


styles = st.builds(
    Style,
    pad=st.tuples(*[st.integers(0, 20)] * 3),
    slash=st.sampled_from(["/", " /", "/ ", " / ", "    / "]),
    unknown=st.sampled_from(["NA", "-", "N/A"]),
    margin=st.sampled_from(["", "    ", "\t"]),
    extra=st.sampled_from(["", "", "Flux(GW)"]),
)
tables = st.tuples(
    st.sampled_from(["A", "B", "B'", "C"]),
    st.lists(st.integers(0, 3000), min_size=1, max_size=3, unique=True).flatmap(
        lambda npus: st.tuples(*(shown(npu) for npu in npus))
    ),
    styles,
)


def expected(layout: str, chip: Shown) -> Chip:
    usage = chip.aicore / 100.0
    return Chip(
        npu=str(chip.npu),
        chip="0" if layout == "C" else str(chip.chip),
        name=chip.name,
        health=chip.health,
        bus_id=chip.bus,
        phy_id=str(chip.phy) if layout == "B'" else None,
        power_watts=None if chip.power is None else float(chip.power),
        temperature_celsius=float(chip.temperature),
        aicore_usage_ratio=None if layout == "C" else usage,
        overall_usage_ratio=usage if layout == "C" else None,
        memory=mib(*chip.memory),
        hbm=None if layout == "A" else mib(*chip.hbm),
        hugepages=Usage(0.0, 0.0),
    )


@given(tables)
@settings(max_examples=60, deadline=None)
def test_any_width_and_blanks_read_the_same(table: tuple[str, tuple[Shown, ...], Style]) -> None:
    layout, chips, style = table
    found = parse_table(print_table(layout, list(chips), style))
    assert found.layout == layout
    assert list(found.chips) == [expected(layout, chip) for chip in chips]
    assert [note.partition(": ")[2] for note in found.notes] == (
        [f"column {style.extra!r} is not known"] if style.extra else []
    )


running = st.builds(
    Running,
    npu=st.integers(0, 3000),
    chip=st.integers(0, 3),
    pid=st.integers(1, 4_000_000),
    name=st.sampled_from(["python3", "VLLM::EngineCor", "a name of four", "Chip"]),
    memory=st.integers(0, 65536),
    container_pid=st.none() | st.integers(1, 4_000_000),
)


@given(tables, st.lists(running, max_size=4))
def test_processes_are_read_in_every_layout(
    table: tuple[str, tuple[Shown, ...], Style], processes: list[Running]
) -> None:
    layout, chips, style = table
    found = parse_table(print_table(layout, list(chips), style, processes))
    assert len(found.chips) == len(chips)
    assert list(found.processes) == [
        Process(
            str(one.npu),
            "0" if layout == "C" else str(one.chip),
            str(one.pid),
            one.name,
            one.memory * MEBIBYTE,
            None if one.container_pid is None else str(one.container_pid),
        )
        for one in processes
    ]


def no_number_is_made_up(layout: str, chips: tuple[Shown, ...], found: Table) -> None:
    """Each chip that was read is one that was printed, and each of its figures is right or absent."""
    printed = {(one.npu, one.chip): one for one in (expected(layout, chip) for chip in chips)}
    for chip in found.chips:
        true = printed[chip.npu, chip.chip]
        for field in Chip.__slots__:
            assert getattr(chip, field) in (None, getattr(true, field)), field


@given(tables, st.data())
@settings(max_examples=80, deadline=None)
def test_a_cut_table_is_told(table: tuple[str, tuple[Shown, ...], Style], data: st.DataObject) -> None:
    layout, chips, style = table
    text = print_table(layout, list(chips), style)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        found = parse_table(cut)
    except TableError:
        return
    no_number_is_made_up(layout, chips, found)
    ends_with_a_rule = cut.rstrip().splitlines()[-1].strip() in {
        line.strip() for line in text.splitlines() if "=" in line
    }
    assert found.notes or ends_with_a_rule, "only a cut between two chips cannot be seen"
    whole = [line for line in cut.splitlines() if line in text.splitlines() and line.strip().startswith("|")]
    assert len(found.chips) >= (len(whole) - 3) // 2, "every chip with both rows whole is there"


@given(tables, st.data())
@settings(max_examples=80, deadline=None)
def test_a_lost_line_loses_one_chip_and_is_told(
    table: tuple[str, tuple[Shown, ...], Style], data: st.DataObject
) -> None:
    layout, chips, style = table
    lines = print_table(layout, list(chips), style).splitlines()
    rows = [at for at, line in enumerate(lines) if at > 5 and line.strip().startswith("|")]
    gone = data.draw(st.sampled_from(rows))
    found = parse_table("\n".join(lines[:gone] + lines[gone + 1 :]))
    no_number_is_made_up(layout, chips, found)
    assert len(found.chips) == len(chips) - 1
    assert found.notes


@given(tables, st.data(), st.sampled_from("xO|/-. \u00e9\ufffd\x00"))
@settings(max_examples=100, deadline=None)
def test_a_damaged_row_is_told_or_harmless(
    table: tuple[str, tuple[Shown, ...], Style], data: st.DataObject, damage: str
) -> None:
    layout, chips, style = table
    lines = print_table(layout, list(chips), style).splitlines()
    row = data.draw(st.sampled_from([at for at, line in enumerate(lines) if at > 5 and "|" in line]))
    at = data.draw(st.integers(0, len(lines[row]) - 1))
    lines[row] = lines[row][:at] + damage + lines[row][at + 1 :]
    found = parse_table("\n".join(lines))
    assert len(found.chips) == len(chips) or found.notes


@given(st.text(st.sampled_from("|+-= 0123456789/NAOK.:()%\nChipHealthBusId"), max_size=400))
@settings(max_examples=80, deadline=None)
def test_garbage_raises_nothing_but_the_declared_error(text: str) -> None:
    head = print_table("B", [CHIP])
    for page in (text, head + text, head.replace("910B3", text)):
        try:
            parse_table(page)
        except TableError:
            continue
