"""Prints `npu-smi info` tables of layouts A and B from known figures, at any width."""

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


@dataclass(frozen=True)
class Style:
    """How the table is set: extra width per group, blanks in a pair, word for what is not known."""

    pad: tuple[int, int, int] = (2, 1, 4)
    slash: str = " / "
    unknown: str = "NA"
    margin: str = ""


FIRST = {"A": ["NPU", "Name"], "B": ["NPU", "Name"]}
SECOND = {"A": ["Chip", "Device"], "B": ["Chip"]}
THIRD = {"A": ["AICore(%)", "Memory-Usage(MB)"], "B": ["AICore(%)", "Memory-Usage(MB)", "HBM-Usage(MB)"]}


def print_table(layout: str, chips: list[Shown], style: Style | None = None) -> str:
    """The table as text, rules and title included."""
    style = style or Style()
    rows = [
        (FIRST[layout], ["Health"], ["Power(W)", "Temp(C)", "Hugepages-Usage(page)"]),
        (SECOND[layout], ["Bus-Id"], THIRD[layout]),
    ]
    for chip in chips:
        pair = style.slash.join
        power = style.unknown if chip.power is None else chip.power
        rows.append(
            (
                [str(chip.npu), chip.name],
                [chip.health],
                [power, str(chip.temperature), pair(["0", "0"])],
            )
        )
        memory = [pair(map(str, chip.memory))] + ([pair(map(str, chip.hbm))] if layout == "B" else [])
        own = [str(chip.chip)] + ([str(chip.npu)] if layout == "A" else [])
        rows.append((own, [chip.bus or style.unknown], [str(chip.aicore), *memory]))
    gaps = ("   ", "", "   ")
    groups = [[gap.join(cells) for gap, cells in zip(gaps, row, strict=True)] for row in rows]
    widths = [max(len(row[at]) for row in groups) + pad for at, pad in zip(range(3), style.pad, strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [rule, "| npu-smi 24.1.0   Version: 24.1.0".ljust(len(rule) - 1) + "|", rule]
    for number, row in enumerate(groups):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
        if number % 2:
            lines.append(rule.replace("-", "="))
    return "\n".join(style.margin + line for line in lines) + "\n"
