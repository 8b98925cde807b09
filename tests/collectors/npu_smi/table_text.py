"""Prints `npu-smi info` tables of every layout from known figures, at any width."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shown:
    """One chip as the table is to show it; None is shown as NA."""

    npu: int
    chip: int
    name: str
    health: str
    power: str | None
    temperature: int
    aicore: int
    bus: str | None
    memory: tuple[int, int]
    hbm: tuple[int, int]
    phy: int = 0


@dataclass(frozen=True)
class Running:
    """One process as the table is to show it."""

    npu: int
    chip: int
    pid: int
    name: str
    memory: int
    container_pid: int | None = None


@dataclass(frozen=True)
class Style:
    """How the table is set: extra width per group, blanks in a pair, word for what is not known.

    `extra` is a column that nobody knows, printed last in the second row with the cell `?`.
    """

    pad: tuple[int, ...] = (2, 1, 4)
    slash: str = " / "
    unknown: str = "NA"
    margin: str = ""
    extra: str = ""


HEADS = {
    "A": ((["NPU", "Name"], ["Health"]), (["Chip", "Device"], ["Bus-Id"])),
    "B": ((["NPU", "Name"], ["Health"]), (["Chip"], ["Bus-Id"])),
    "B'": ((["NPU", "Name"], ["Health"]), (["Chip", "Phy-ID"], ["Bus-Id"])),
    "C": ((["NPU ID"], ["Name"], ["Health"]), ([""], [""], ["Bus-Id"])),
}
Row = tuple[list[str], ...]


def print_table(
    layout: str, chips: list[Shown], style: Style | None = None, processes: list[Running] | None = None
) -> str:
    """The table as text, rules and title included; processes in the wide form with the pid in the container."""
    style = style or Style()
    first, second = HEADS[layout]
    usage = "NPU Util(%)" if layout == "C" else "AICore(%)"
    columns = [usage, "Memory-Usage(MB)"] + ([] if layout == "A" else ["HBM-Usage(MB)"])
    rows: list[Row] = [
        (*first, ["Power(W)", "Temp(C)", "Hugepages-Usage(page)"]),
        (*second, columns + ([style.extra] if style.extra else [])),
    ]
    for chip in chips:
        rows.extend(_rows(layout, chip, style))
    lines = _framed(rows, style)
    title = "| npu-smi 24.1.0   Version: 24.1.0".ljust(len(lines[0]) - 1) + "|"
    lines[:0] = [lines[0], title]
    if processes is not None:
        lines += _framed(_process_rows(layout, processes, style), style, header_rows=1)
    return "\n".join(style.margin + line for line in lines) + "\n"


def _rows(layout: str, chip: Shown, style: Style) -> list[Row]:
    pair = style.slash.join
    power = style.unknown if chip.power is None else chip.power
    cells = [str(chip.aicore), pair(map(str, chip.memory))]
    if layout != "A":
        cells.append(pair(map(str, chip.hbm)))
    if style.extra:
        cells.append("?")
    figures = [power, str(chip.temperature), pair(["0", "0"])]
    bus = [chip.bus or style.unknown]
    if layout == "C":
        return [([str(chip.npu)], [chip.name], [chip.health], figures), ([""], [""], bus, cells)]
    own = {"A": [str(chip.npu)], "B": [], "B'": [str(chip.phy)]}[layout]
    return [([str(chip.npu), chip.name], [chip.health], figures), ([str(chip.chip), *own], bus, cells)]


def _process_rows(layout: str, processes: list[Running], style: Style) -> list[Row]:
    first = ["NPU ID"] if layout == "C" else ["NPU", "Chip"]
    head = (["Process id"], ["Process name"], ["Process memory(MB)"], ["Process id in container"])
    return [
        (first, *head),
        *(
            (
                [str(one.npu)] if layout == "C" else [str(one.npu), str(one.chip)],
                [str(one.pid)],
                [one.name],
                [str(one.memory)],
                [style.unknown if one.container_pid is None else str(one.container_pid)],
            )
            for one in processes
        ),
    ]


def _framed(rows: list[Row], style: Style, header_rows: int = 2) -> list[str]:
    """The rows between rules; after the header there is one below each device, or below each process."""
    gaps = ["   "] * len(rows[0])
    groups = [[gap.join(cells) for gap, cells in zip(gaps, row, strict=True)] for row in rows]
    count = len(groups[0])
    pads = (*style.pad, *[1] * count)[:count]
    widths = [max(len(row[at]) for row in groups) + pads[at] for at in range(count)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [rule]
    for number, row in enumerate(groups, 1):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
        if number % header_rows == 0:
            lines.append(rule.replace("-", "="))
    return lines
