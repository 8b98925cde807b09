"""The `npu-smi info` table, from text to dataclasses.

The columns are those the two header rows name, in their order; nothing hangs on widths or on fixed positions.
What cannot be read is absent and is told in a note: no row is dropped in silence and no number is made up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from collectors.lines import numbered
from collectors.npu_smi import errors
from collectors.npu_smi.cells import (
    BLANK,
    MEBIBYTE,
    SCANNED,
    Cell,
    Group,
    Unreadable,
    Usage,
    column_of,
    header_before_cut,
    headers,
    lacks_unit,
    tokens_before_cut,
    tokens_under,
)


class TableError(Exception):
    """The text holds no readable table; the message is the reason, in the tool's own words if any."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip; None is what the table does not say, or not readably."""

    npu: str
    chip: str
    name: str | None = None
    health: str | None = None
    bus_id: str | None = None
    phy_id: str | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    aicore_usage_ratio: float | None = None
    overall_usage_ratio: float | None = None
    memory: Usage | None = None
    hbm: Usage | None = None
    hugepages: Usage | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a chip; the table names at most 8 per chip and cuts names at 15 characters."""

    npu: str
    chip: str
    pid: str
    name: str | None
    memory_bytes: float | None
    container_pid: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """What the text said.

    `layout` is A (310 family), B (910A, 910B), B' (A3, with `Phy-ID`) or C (950, no chip column).
    """

    layout: str
    tool_version: str | None
    driver_version: str | None
    chips: tuple[Chip, ...]
    processes: tuple[Process, ...]
    notes: tuple[str, ...]


def parse_table(text: str, exit_code: int | None = None) -> Table:
    """Read the output of `npu-smi info`; raises TableError if it has no table, with what the exit code adds."""
    reader = _Reader()
    for number, line in numbered(text, reader.notes):
        reader.line(number, line)
    return reader.table(text, exit_code)


_RULE = re.compile(r"[+|](?=[+|]*[-=])[-=+|]*")
_TITLE = re.compile(r"\|\s*npu-smi\s+([^\s|]+)(?:\s+Version:\s*([^\s|]+))?\s*\|")
_PROMPT = re.compile(r"\[?[\w.-]{1,80}@[\w.-]{1,80}(?::\S{0,400}|\s\S{1,400}\])?\s*[#$]")
_ASKED = re.compile(r"npu-smi\s+info\b")
# After that come options and what the shell does with the output; any other word is an answer.
_OPTIONS = re.compile(
    r"(?:\s+(?:watch|proc))?(?:\s+--?[A-Za-z][\w-]*(?:\s+[\w.,][\w.,-]*)?)*\s*(?:(?:[|;&>]|2>).*)?"
)


@dataclass(slots=True)
class _Reader:
    """Goes over the lines; a chip is a row under the first header and a row under the second."""

    first: tuple[Group, ...] | None = None
    second: tuple[Group, ...] | None = None
    processes_header: tuple[Group, ...] | None = None
    pending: tuple[int, dict[str, Cell]] | None = None
    tool_version: str | None = None
    driver_version: str | None = None
    chips: dict[tuple[str, str], Chip] = field(default_factory=dict)
    printed: set[tuple[str, str]] = field(default_factory=set)
    processes: list[Process] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cut: bool = False
    rule_width: int = 0
    ended_whole: bool = True

    def line(self, number: int, line: str) -> None:
        if _RULE.fullmatch(line):
            self._close_pending()
            self.rule_width = self.rule_width or len(line)
            self.ended_whole = line[-1] in "+|" and len(line) >= self.rule_width
            return
        if not line.startswith("|"):
            if not _is_prompt(line):
                self._note(number, "not a row of the table", line)
            return
        if match := _TITLE.fullmatch(line):
            self.tool_version, self.driver_version = match[1], match[2]
            return
        self.ended_whole = False
        if line.endswith("|") and len(line) > 1:
            self._row(number, line, [cell.strip() for cell in line[1:-1].split("|")])
            return
        self._note(number, "a row that is cut off", line)
        self.cut = True
        self._row(number, line, [cell.strip() for cell in line[1:].split("|")])
        self.cut = False

    def _row(self, number: int, line: str, cells: list[str]) -> None:
        if cells[0].startswith("No running processes"):
            self._close_pending()
        elif any(cell.startswith("Process id") for cell in cells):
            self._close_pending()
            self.processes_header = self._headers(cells)
        elif "Health" in cells:
            self._close_pending()
            self.first, self.second, self.processes_header = self._headers(cells), None, None
        elif self.first is None:
            self._refuse(number, line, "a row before any header")
        elif self.processes_header is not None:
            self._process(number, line, cells)
        elif self.second is None:
            if any("Bus-Id" in group for group in headers(cells)):
                self.second = self._headers(cells)
                self._note_unknown_columns(number)
            else:
                self._refuse(number, line, "a row where the second header should be")
        elif self.pending is None:
            self._first_row(number, line, cells)
        else:
            self._second_row(number, line, cells)

    def _headers(self, cells: list[str]) -> tuple[Group, ...]:
        return headers([*cells[:-1], header_before_cut(cells[-1])] if self.cut else cells)

    def _first_row(self, number: int, line: str, cells: list[str]) -> None:
        assert self.first is not None
        health = _cell_under("Health", cells, self.first)
        if health is not None and ":" in health:
            self._note(number, "a second row without a first", line)
            return
        read = self._read(number, line, cells, self.first)
        if read is None or not isinstance(read.get("npu"), str):
            self._refuse(number, line)
            # Its second row would otherwise pass for a first one.
            self.pending = (number, {})
            return
        self.pending = (number, read)

    def _second_row(self, number: int, line: str, cells: list[str]) -> None:
        assert self.second is not None and self.pending is not None
        above, first = self.pending
        bus = _cell_under("Bus-Id", cells, self.second)
        if bus is not None and ":" not in bus and bus not in BLANK:
            self._close_pending()
            self._first_row(number, line, cells)
            return
        self.pending = None
        read = self._read(number, line, cells, self.second)
        has_chip = any("Chip" in group for group in self.second)
        if read is None or (has_chip and not isinstance(read.get("chip"), str)):
            self._refuse(number, line)
            return
        if not first:
            self._note(number, f"belongs to line {above}, which could not be read", line)
            return
        self._add(number, line, {"chip": "0", **first, **read})

    def _add(self, number: int, line: str, found: dict[str, Cell]) -> None:
        chip = _chip(found)
        if chip.phy_id is not None and chip.bus_id is not None:
            # A die that is partitioned is printed once for each part.
            if (chip.phy_id, chip.bus_id) in self.printed:
                self._note(number, f"physical id {chip.phy_id} is printed again", line)
                return
            self.printed.add((chip.phy_id, chip.bus_id))
        if (chip.npu, chip.chip) in self.chips:
            self._note(number, f"NPU {chip.npu} chip {chip.chip} is printed again", line)
            return
        self.chips[chip.npu, chip.chip] = chip

    def _process(self, number: int, line: str, cells: list[str]) -> None:
        assert self.processes_header is not None
        read = self._read(number, line, cells, self.processes_header)
        if read is None or not isinstance(read.get("npu"), str) or not isinstance(read.get("pid"), str):
            self._note(number, "a process row that cannot be read", line)
            return
        memory = read.get("process_memory")
        self.processes.append(
            Process(
                npu=str(read["npu"]),
                chip=str(read.get("chip") or "0"),
                pid=str(read["pid"]),
                name=_word(read.get("process")),
                memory_bytes=memory * MEBIBYTE if isinstance(memory, float) else None,
                container_pid=_word(read.get("container_pid")),
            )
        )

    def _read(
        self, number: int, line: str, cells: list[str], header: tuple[Group, ...]
    ) -> dict[str, Cell] | None:
        """Cells by field name; None if the row has not the header's groups. A row that is cut off has fewer."""
        if len(cells) > len(header) or (len(cells) < len(header) and not self.cut):
            return None
        found: dict[str, Cell] = {}
        for at, (cell, group) in enumerate(zip(cells, header, strict=False)):
            cut_here = self.cut and at == len(cells) - 1
            tokens = tokens_before_cut(cell, group) if cut_here else tokens_under(cell, group)
            if tokens is None:
                self._note(number, f"cells under {' '.join(group) or 'no header'} cannot be told apart", line)
                continue
            for token, word in zip(tokens, group, strict=False):
                self._cell(number, line, word, token, found)
        return found

    def _cell(self, number: int, line: str, word: str, token: str, found: dict[str, Cell]) -> None:
        column = column_of(word)
        if column is None:
            return
        if word == "Health" and token in SCANNED:
            self._note(number, f"{word} is {token!r}, taken for {SCANNED[token]}", line)
        try:
            found[column[0]] = column[1](token)
        except Unreadable:
            self._note(number, f"{word} is {token!r}", line)

    def _refuse(self, number: int, line: str, what: str = "a device row that cannot be read") -> None:
        if not self.cut:  # which was told already
            self._note(number, what, line)

    def _close_pending(self) -> None:
        if self.pending is not None and self.pending[1]:
            number, first = self.pending
            self.notes.append(f"line {number}: NPU {first['npu']} has no readable second row")
        self.pending = None

    def _note_unknown_columns(self, number: int) -> None:
        for group in (*(self.first or ()), *(self.second or ())):
            for word in group:
                if column_of(word) is None:
                    self.notes.append(f"line {number}: column {word!r} is not known")
                elif lacks_unit(word):
                    self.notes.append(
                        f"line {number}: column {word!r} shows no unit, taken for npu-smi's own"
                    )

    def _note(self, number: int, what: str, line: str) -> None:
        self.notes.append(f"line {number}: {what}: {line[:100]}")

    def table(self, text: str, exit_code: int | None) -> Table:
        if self.first is None or self.second is None:
            raise TableError(_reason(text, exit_code))
        self._close_pending()
        if not self.ended_whole:
            self.notes.append("the table is cut off: it does not end with a rule")
        if not self.chips and not self.notes:
            self.notes.append("the table lists no device")
        return Table(
            _layout(self.first, self.second),
            self.tool_version,
            self.driver_version,
            tuple(self.chips.values()),
            tuple(self.processes),
            tuple(self.notes),
        )


def _is_prompt(line: str) -> bool:
    """Whether the line is the shell's prompt, with or without the command that printed the table."""
    asked = _ASKED.search(line)
    if asked is None:
        return _PROMPT.fullmatch(line) is not None
    before = line[: asked.start()].rstrip()[-1:]
    return before in ("", "#", "$", ">") and _OPTIONS.fullmatch(line, asked.end()) is not None


def _cell_under(word: str, cells: list[str], header: tuple[Group, ...]) -> str | None:
    """The cell of a column that has a group to itself; the two rows of a chip are told apart by it."""
    if (word,) not in header or header.index((word,)) >= len(cells):
        return None
    return cells[header.index((word,))]


def _chip(found: dict[str, Cell]) -> Chip:
    return Chip(
        npu=_word(found["npu"]) or "",
        chip=_word(found["chip"]) or "",
        name=_word(found.get("name")),
        health=_word(found.get("health")),
        bus_id=_word(found.get("bus_id")),
        phy_id=_word(found.get("phy_id")),
        power_watts=_number(found.get("power_watts")),
        temperature_celsius=_number(found.get("temperature_celsius")),
        aicore_usage_ratio=_number(found.get("aicore_usage_ratio")),
        overall_usage_ratio=_number(found.get("overall_usage_ratio")),
        memory=_usage(found.get("memory")),
        hbm=_usage(found.get("hbm")),
        hugepages=_usage(found.get("hugepages")),
    )


def _word(cell: Cell) -> str | None:
    return cell if isinstance(cell, str) and cell else None


def _number(cell: Cell) -> float | None:
    return cell if isinstance(cell, float) else None


def _usage(cell: Cell) -> Usage | None:
    return cell if isinstance(cell, Usage) else None


def _layout(first: tuple[Group, ...], second: tuple[Group, ...]) -> str:
    words = {word for group in (*first, *second) for word in group}
    if "NPU ID" in words:
        return "C"
    if "Phy-ID" in words:
        return "B'"
    return "B" if any(word.startswith("HBM-Usage") for word in words) else "A"


def _reason(text: str, exit_code: int | None) -> str:
    failure = errors.of_text(text)
    if failure is None and any(line.lstrip().startswith("|") for line in text.splitlines()):
        return "npu-smi printed a table without its header rows: what its columns are is not known"
    return str(failure or errors.of_output(text, exit_code))
