"""The lines of `npu-smi info watch`: a header, then a row for each chip every second or so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collectors.lines import numbered
from collectors.npu_smi.cells import BLANK


@dataclass(frozen=True, slots=True)
class WatchRow:
    """One chip at one moment; None is `NA` or `-`.

    `memory_*` is of the HBM on 910B, A3 and 950, and of the DDR memory on all others, 910A among them.
    """

    npu: str
    chip: str | None
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Watch:
    """A piece of the stream: the last row of each chip, in the order of the chips, and how many rows there were."""

    rows: tuple[WatchRow, ...]
    seen: int
    notes: tuple[str, ...]


def _plain(text: str) -> float:
    return float(text)


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise ValueError
    return value / 100.0


_COLUMNS: dict[str, tuple[str, Callable[[str], float]]] = {
    "pwr(w)": ("power_watts", _plain),
    "temp(c)": ("temperature_celsius", _plain),
    "aicore(%)": ("aicore_usage_ratio", _share),
    "aicpu(%)": ("aicpu_usage_ratio", _share),
    "ctrlcpu(%)": ("ctrlcpu_usage_ratio", _share),
    "memory(%)": ("memory_usage_ratio", _share),
    "memorybw(%)": ("memory_bandwidth_usage_ratio", _share),
    "npuutil(%)": ("overall_usage_ratio", _share),
    "aicube(%)": ("cube_usage_ratio", _share),
    "aivector(%)": ("vector_usage_ratio", _share),
}
_NPU, _CHIP = "npuid(idx)", "chipid(idx)"
_HEADING = re.compile(r"(?<![A-Za-z])[A-Za-z][A-Za-z ]{0,30}?\s?\([^)]{0,30}\)")
_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,9})?")


class WatchReader:
    """Reads line by line; `notes` tells once of each kind of line or cell that cannot be read."""

    def __init__(self) -> None:
        self._columns: tuple[str, ...] = ()
        self._told: set[str] = set()
        self.notes: list[str] = []

    @property
    def started(self) -> bool:
        """Whether the header was seen, by which columns go."""
        return bool(self._columns)

    def line(self, number: int, line: str) -> WatchRow | None:
        """The row that the line is; None for the header, for a blank line and for what is noted."""
        line = line.strip()
        if not line:
            return None
        headings = [re.sub(r"\s", "", heading).lower() for heading in _HEADING.findall(line)]
        if _NPU in headings:
            self._header(number, line, headings)
            return None
        cells = line.split()
        if len(cells) != len(self._columns) or not cells[0].isdecimal():
            self._note("line", f"line {number}: not a row of the watch: {line[:100]}")
            return None
        return self._row(number, cells)

    def _header(self, number: int, line: str, headings: list[str]) -> None:
        left = _HEADING.sub("", line).strip()
        if headings[0] != _NPU or len(set(headings)) != len(headings) or left:
            self._columns = ()
            self._note("header", f"line {number}: a header that cannot be read: {line[:100]}")
            return
        self._columns = tuple(headings)
        for heading in headings:
            if heading not in (_NPU, _CHIP, *_COLUMNS):
                self._note(heading, f"line {number}: column {heading!r} is not known")

    def _row(self, number: int, cells: list[str]) -> WatchRow | None:
        chip: str | None = None
        values: dict[str, float | None] = {}
        for heading, cell in zip(self._columns, cells, strict=True):
            if heading == _CHIP:
                if not cell.isdecimal():
                    self._note("line", f"line {number}: the chip is {cell!r}")
                    return None
                chip = cell
                continue
            column = _COLUMNS.get(heading)
            if column is None:
                continue
            if cell in BLANK:
                values[column[0]] = None
                continue
            try:
                if _NUMBER.fullmatch(cell) is None:
                    raise ValueError
                values[column[0]] = column[1](cell)
            except ValueError:
                self._note(f"{heading} cell", f"line {number}: {heading} is {cell[:40]!r}")
        return WatchRow(cells[0], chip, values)

    def _note(self, kind: str, text: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            self.notes.append(text)


def parse_watch(text: str) -> Watch:
    """Read a piece of the stream that begins with its header; each line that is no row is noted."""
    reader = _Thorough()
    rows: dict[tuple[str, str | None], WatchRow] = {}
    seen = 0
    for number, line in numbered(text, reader.notes):
        row = reader.line(number, line)
        if row is not None:
            rows[row.npu, row.chip] = row
            seen += 1
    return Watch(tuple(rows.values()), seen, tuple(reader.notes))


class _Thorough(WatchReader):
    """Tells of every line, which a stream without end must not."""

    def _note(self, kind: str, text: str) -> None:
        self.notes.append(text)
