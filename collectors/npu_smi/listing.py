"""The lists of `npu-smi info -l` (NPUs) and `npu-smi info -m` (chips), from text to dataclasses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from collectors.lines import numbered
from collectors.npu_smi.cells import BLANK

CONTROLLERS = ("mcu", "3559")
"""Names, in lower case, of what is listed beside the chips and is none: the board's controller, its processor."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One row; None is what the list does not show.

    `chips` is the NPU's number of chips (`-l`), `logic_id` the number the runtime knows the chip by (`-m`).
    """

    npu: str
    chip: str | None = None
    slot: str | None = None
    logic_id: str | None = None
    phy_id: str | None = None
    name: str | None = None
    serial_number: str | None = None
    chips: int | None = None

    @property
    def controller(self) -> bool:
        """Whether it is the board's controller and not a chip."""
        return self.name is not None and self.name.lower() in CONTROLLERS


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole list."""

    rows: tuple[Listed, ...]
    notes: tuple[str, ...]


_KEY = re.compile(r"(NPU ID|Chip Count|Total Count|Product Name|Serial Number)\s*:\s*(.*)")
_COLUMNS = {
    "NPU ID": "npu",
    "Slot ID": "slot",
    "Chip ID": "chip",
    "Chip Logic ID": "logic_id",
    "Chip Phy-ID": "phy_id",
    "Chip Name": "name",
}
_HEADING = re.compile("|".join(sorted(_COLUMNS, key=len, reverse=True)))
_CELL = re.compile(r"\d+|NA|-")


def parse_list(text: str) -> Listing:
    """Read `npu-smi info -l`; lines that are not known become notes."""
    rows: list[dict[str, str]] = []
    notes: list[str] = []
    total: str | None = None
    for number, line in numbered(text, notes):
        match = _KEY.fullmatch(line)
        if match is None:
            notes.append(f"line {number}: not a known line: {line[:100]}")
        elif match[1] == "Total Count":
            total = match[2]
        elif match[1] == "NPU ID":
            rows.append({match[1]: match[2]})
        elif rows:
            rows[-1][match[1]] = match[2]
        else:
            notes.append(f"line {number}: before any NPU: {line[:100]}")
    found = []
    for row in rows:
        if not row["NPU ID"].isdecimal():
            notes.append(f"NPU ID is {row['NPU ID']!r}: not a number")
            continue
        count = row.get("Chip Count", "")
        found.append(
            Listed(
                npu=row["NPU ID"],
                name=_known(row.get("Product Name")),
                serial_number=_known(row.get("Serial Number")),
                chips=int(count) if count.isdecimal() else None,
            )
        )
    if total is not None and total != str(len(found)):
        notes.append(f"Total Count is {total}, {len(found)} can be read")
    return Listing(tuple(found), tuple(notes))


def parse_mapping(text: str) -> Listing:
    """Read `npu-smi info -m`: columns go by header; rows that do not fit it become notes."""
    columns: list[str] = []
    rows: list[Listed] = []
    notes: list[str] = []
    for number, line in numbered(text, notes):
        headings = _HEADING.findall(line)
        if headings and " ".join(headings) == " ".join(line.split()):
            columns = [_COLUMNS[heading] for heading in headings]
            continue
        # Only a name has blanks within, and it is the last column.
        named = bool(columns) and columns[-1] == "name"
        cells = line.split(maxsplit=len(columns) - 1) if named else line.split()
        numbers = cells[:-1] if named else cells
        if not columns or len(cells) != len(columns) or not all(_CELL.fullmatch(cell) for cell in numbers):
            notes.append(f"line {number}: not a row of the list: {line[:100]}")
            continue
        found = {column: cell for column, cell in zip(columns, cells, strict=True) if cell not in BLANK}
        if "npu" not in found:
            notes.append(f"line {number}: a row without an NPU: {line[:100]}")
            continue
        rows.append(
            Listed(
                npu=found["npu"],
                chip=found.get("chip"),
                slot=found.get("slot"),
                logic_id=found.get("logic_id"),
                phy_id=found.get("phy_id"),
                name=found.get("name"),
            )
        )
    return Listing(tuple(rows), tuple(notes))


def _known(text: str | None) -> str | None:
    return None if text is None or text in BLANK else text
