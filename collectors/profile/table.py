"""Rows of the profilers' CSV tables by header, whatever the version called its columns.

Sources of the columns: Huawei's profiling guide (op_summary, op_statistic, api_statistic, l2_cache, hbm ...) and
torch_npu's ASCEND_PROFILER_OUTPUT. Timestamps end with a TAB, unknown cells are `N/A`, shapes are quoted twice,
call stacks have line ends within their quotes.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from collectors.profile.bounded_lines import LONGEST_LINE_BYTES, BoundedLines

Columns = Mapping[str, Sequence[str]]
"""What a reader wants: its own names, each with the names that columns have had, without their unit."""

UNKNOWN = frozenset({"", "N/A", "NA", "n/a", "-", "nan", "NaN", "None", "null"})
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "ns": 1e-9, "B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
RATES = {"MB/s": 1e6, "GB/s": 1e9, "%": 0.01}
_HEADING = re.compile(r"^(.*?)\s*(?:\(([^()]*)\))?$")


class TableError(Exception):
    """A table could not be read at all; the text says what and where."""


class Row:
    """The wanted cells of one row."""

    __slots__ = ("_cells", "_places", "_scales")

    def __init__(self, cells: list[str], places: dict[str, int], scales: dict[str, float]) -> None:
        self._cells = cells
        self._places = places
        self._scales = scales

    def text(self, name: str) -> str | None:
        """The cell without its padding and doubled quotes; None if unknown."""
        place = self._places.get(name)
        if place is None:
            return None
        cell = self._cells[place].strip().strip('"')
        return None if cell in UNKNOWN else cell

    def number(self, name: str) -> float | None:
        """The cell in base units (seconds, bytes, shares) after its column's unit; None if it is no number."""
        place = self._places.get(name)
        if place is None:
            return None
        try:
            value = float(self._cells[place])
        except ValueError:
            return None
        return value * self._scales[name] if math.isfinite(value) else None

    def nanoseconds(self, name: str) -> int | None:
        """A timestamp in microseconds as whole nanoseconds: a float of this size would lose its last digits."""
        place = self._places.get(name)
        return None if place is None else whole_nanoseconds(self._cells[place])


def whole_nanoseconds(cell: str) -> int | None:
    """Microseconds with decimals as whole nanoseconds; None if it is no number."""
    cell = cell.strip()
    whole, _, part = cell.partition(".")
    if whole.isdecimal() and whole.isascii() and len(whole) < 20 and (not part or part.isdecimal()):
        return int(whole) * 1000 + int(f"{part:0<3}"[:3])
    try:
        value = float(cell)
    except ValueError:
        return None
    return round(value * 1000) if math.isfinite(value) and abs(value) < 1e19 else None


class Table:
    """One CSV file, read as a stream. After the rows, `notes` say what was wrong with it."""

    def __init__(
        self,
        path: Path,
        columns: Columns,
        needed: Sequence[str],
        read: Callable[[int], None] | None = None,
    ) -> None:
        self.path = path
        self.rows = 0
        self.notes: list[str] = []
        self._columns = columns
        self._needed = needed
        self._read = read

    def __iter__(self) -> Iterator[Row]:
        try:
            with self.path.open("rb") as file:
                lines = BoundedLines(file, self._read)
                yield from self._parsed(lines)
        except OSError as error:
            raise TableError(f"{self.path}: {error.strerror or error}") from error
        if lines.too_long:
            self._note(f"{lines.too_long} lines of more than {LONGEST_LINE_BYTES} bytes were left out")
        if lines.not_text:
            self._note(f"{lines.not_text} lines are not UTF-8; their names are damaged")
        if self.rows and not lines.ends_whole:
            self._note("the file does not end with a line end: its last row may be cut")

    def _parsed(self, lines: BoundedLines) -> Iterator[Row]:
        reader = csv.reader(lines)
        headings = _next(reader)
        while headings is not None and not any(cell.strip() for cell in headings):
            headings = _next(reader)
        if headings is None:
            raise TableError(f"{self.path}: the file is empty")
        places, scales = self._placed(headings)
        wrong = 0
        while (cells := _next(reader)) is not None:
            if not cells:
                continue
            if len(cells) != len(headings):
                wrong += 1
                continue
            self.rows += 1
            yield Row(cells, places, scales)
        if wrong:
            self._note(f"{wrong} rows have not the {len(headings)} cells of the heading and were left out")

    def _placed(self, headings: list[str]) -> tuple[dict[str, int], dict[str, float]]:
        found: dict[str, tuple[int, float]] = {}
        for place, heading in enumerate(headings):
            match = _HEADING.match(heading.strip().lstrip("﻿"))
            name, unit = (match[1], match[2] or "") if match else (heading, "")
            scale = UNITS.get(unit, RATES.get(unit))
            # Brackets that hold no unit belong to the name, as in `Communication(Not Overlapped)`.
            whole = name if scale is not None else heading.strip()
            found.setdefault(_plain(whole), (place, scale if scale is not None else 1.0))
        places: dict[str, int] = {}
        scales: dict[str, float] = {}
        for own, names in self._columns.items():
            for name in names:
                if (at := found.get(_plain(name))) is not None:
                    places[own], scales[own] = at
                    break
        lacking = [self._columns[name][0] for name in self._needed if name not in places]
        if lacking:
            raise TableError(
                f"{self.path}: no column {', '.join(lacking)}; this is not the table it is named as"
            )
        return places, scales

    def _note(self, text: str) -> None:
        self.notes.append(f"{self.path}: {text}")


def _plain(name: str) -> str:
    return re.sub(r"[\s_]+", " ", name).strip().lower()


def _next(reader: Iterator[list[str]]) -> list[str] | None:
    """The next record; one that csv refuses is a row without the right cells, and the reader goes on."""
    try:
        return next(reader, None)
    except csv.Error:
        return ["?"]
