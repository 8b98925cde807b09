"""Cells of the `npu-smi info` table: what each header word promises, and how its cell is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

MEBIBYTE = 1024.0**2
"""What npu-smi calls MB: a 64 GiB chip shows 65536."""

HEALTH = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN")
SCANNED = {"0K": "OK", "0k": "OK"}
"""Health words as text recognition reads them off a picture; the tool itself prints none of these."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Used and total, in bytes for memory and in pages for huge pages, as printed: `0 / 0` means there is none.

    `used` is None where only the total is told.
    """

    used: float | None
    total: float


class Unreadable(Exception):
    """A cell is not what its header says."""


# As long as the largest counter of 64 bits.
_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,9})?")
_WHOLE = re.compile(r"[0-9]{1,20}")
BLANK = ("NA", "N/A", "-", "")
_PAIR = re.compile(r"([0-9]{1,20}|NA|-)\s*/\s*([0-9]{1,20}|NA|-)")
_TOKEN = re.compile(rf"(?<!\S){_PAIR.pattern}(?!\S)|\S+")
_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")


def _number(text: str) -> float | None:
    if text in BLANK:
        return None
    if _NUMBER.fullmatch(text) is None:
        raise Unreadable
    return float(text)


def ratio(text: str) -> float | None:
    """A share that is printed in percent; None for `NA`; raises Unreadable."""
    value = _number(text)
    if value is not None and value > 100.0:
        raise Unreadable
    return None if value is None else value / 100.0


def _pair(text: str, unit: float) -> Usage | None:
    match = _PAIR.fullmatch(text)
    if match is None:
        if text in BLANK:
            return None
        raise Unreadable
    if match[2] in BLANK:
        return None
    used, total = None if match[1] in BLANK else float(match[1]), float(match[2])
    if used is not None and used > total:
        raise Unreadable
    return Usage(None if used is None else used * unit, total * unit)


def word(text: str) -> str | None:
    """The text itself; None for `NA`."""
    return None if text in BLANK else text


def whole(text: str) -> str | None:
    """A whole number as printed; None for `NA`; raises Unreadable."""
    if text in BLANK:
        return None
    if _WHOLE.fullmatch(text) is None:
        raise Unreadable
    return text


def health(text: str) -> str | None:
    """One of HEALTH; None for `NA`; raises Unreadable."""
    for state in HEALTH:
        if text.lower() == state.lower():
            return state
    if text in BLANK:
        return None
    raise Unreadable


def _bus(text: str) -> str | None:
    if text not in BLANK and _BUS.fullmatch(text) is None:
        raise Unreadable
    return word(text)


Cell = str | float | Usage | None
COLUMNS: dict[str, tuple[str, Callable[[str], Cell]]] = {
    "NPU ID": ("npu", whole),
    "NPU Util(%)": ("overall_usage_ratio", ratio),
    "NPU": ("npu", whole),
    "Name": ("name", word),
    "Health": ("health", lambda text: health(SCANNED.get(text, text))),
    "Power(W)": ("power_watts", _number),
    "Temp(C)": ("temperature_celsius", _number),
    "Hugepages-Usage(page)": ("hugepages", lambda text: _pair(text, 1.0)),
    "Chip": ("chip", whole),
    "Device": ("device", whole),
    "Phy-ID": ("phy_id", whole),
    "Bus-Id": ("bus_id", _bus),
    "AICore(%)": ("aicore_usage_ratio", ratio),
    "Memory-Usage(MB)": ("memory", lambda text: _pair(text, MEBIBYTE)),
    "HBM-Usage(MB)": ("hbm", lambda text: _pair(text, MEBIBYTE)),
    "Process id in container": ("container_pid", whole),
    "Process id": ("pid", whole),
    "Process name": ("process", word),
    "Process memory(MB)": ("process_memory", _number),
}
_WITHOUT_UNIT = {
    name.partition("(")[0]: name for name in ("HBM-Usage(MB)", "Memory-Usage(MB)", "Power(W)", "Temp(C)")
}
"""Header words whose unit was lost, and the column they are: npu-smi knows but one unit for each."""
# A unit may be set apart from its word.
_HEADER = re.compile(
    "|".join(re.escape(word).replace(r"\(", r"\s?\(") for word in sorted(COLUMNS, key=len, reverse=True))
    + r"|\S+"
)

Group = tuple[str, ...]


def headers(cells: list[str]) -> tuple[Group, ...]:
    """The words of a header row, group by group."""
    return tuple(tuple(word.replace(" (", "(") for word in _HEADER.findall(cell)) for cell in cells)


def header_before_cut(cell: str) -> str:
    """The words of a header cell that is cut off, up to the last that shows by its unit that it is whole."""
    return " ".join(takewhile(lambda word: word.endswith(")"), _HEADER.findall(cell)))


def column_of(word: str) -> tuple[str, Callable[[str], Cell]] | None:
    """The field a header word names and how its cells are read; None if the word is not known."""
    return COLUMNS.get(_WITHOUT_UNIT.get(word, word))


def lacks_unit(word: str) -> bool:
    """Whether it is a column's word without its unit."""
    return word in _WITHOUT_UNIT


def tokens_under(cell: str, group: Group) -> list[str] | None:
    """The cell's parts, one for each header word; None if they do not match in number."""
    if not group:
        return [] if not cell else None
    if len(group) == 1 and group[0] not in ("NPU", "Chip"):
        return [" ".join(cell.split())]
    tokens = [match[0] for match in _TOKEN.finditer(cell)]
    if group[-1] == "Name" and len(tokens) > len(group):
        tokens[len(group) - 1 :] = [" ".join(tokens[len(group) - 1 :])]
    return tokens if len(tokens) == len(group) else None


def tokens_before_cut(cell: str, group: Group) -> list[str]:
    """The parts of a cell that is cut off somewhere, without the last one, which may be cut itself."""
    return [match[0] for match in _TOKEN.finditer(cell)][:-1][: len(group)]
