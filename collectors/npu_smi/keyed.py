"""The `key : value` outputs of `npu-smi info -t TYPE`, from text to dataclasses.

`Chip ID` stands before the lines of its chip in some types and after them in others: what comes first in the
output tells which. A `Chip Name : mcu` marks the lines of the board's controller, which is not the chip.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.lines import numbered
from collectors.npu_smi.cells import MEBIBYTE, Unreadable
from collectors.npu_smi.fields import FIELDS, Value, folded, plain_number


@dataclass(frozen=True, slots=True)
class Section:
    """What is said of one chip; `npu` or `chip` is None where the output does not name it.

    `controller` marks the lines of the board's MCU or host processor. `values` holds what was printed: None is
    `NA`, what could not be read is absent and noted.
    """

    npu: str | None
    chip: str | None
    controller: bool
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """A process on a chip, in the `proc-mem` output."""

    npu: str | None
    chip: str | None
    pid: str
    name: str | None
    memory_bytes: float | None


@dataclass(frozen=True, slots=True)
class Keyed:
    """A whole output; `type` is the `-t` type whose keys it has most of, None if it has none."""

    type: str | None
    sections: tuple[Section, ...]
    processes: tuple[ProcessMemory, ...]
    notes: tuple[str, ...]


def parse_keyed(text: str) -> Keyed:
    """Read the output of `npu-smi info -t TYPE`; lines that are not known become notes."""
    reader = _Reader()
    for number, line in numbered(text, reader.notes):
        reader.line(number, line)
    return reader.keyed()


_LINE = re.compile(r"(.*?\S)\s*:\s*(.*)")
_CONTINUED = re.compile(r":\s*(.*)")
_PROCESS = re.compile(r"Process id\s*:\s*(\S*)\s+Process name\s*:(.*)\sProcess memory\(MB\)\s*:\s*(\S*)")
_PROBE = re.compile(r"(\w+)\s*\(C\)")
_NOT_A_CHIP = ("mcu", "3559")
_TEXTS = ("error_information", "fault_event_codes")


@dataclass(slots=True)
class _Reader:
    npu: str | None = None
    chip: str | None = None
    chip_first: bool | None = None
    controller: bool = False
    values: dict[str, Value] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    processes: list[ProcessMemory] = field(default_factory=list)
    unnamed: list[int] = field(default_factory=list)
    types: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    last: str | None = None
    named: bool = False

    def line(self, number: int, line: str) -> None:
        if match := _PROCESS.fullmatch(line):
            self._process(number, line, match)
        elif match := _CONTINUED.fullmatch(line):
            self._continued(number, line, match[1])
        elif (match := _LINE.fullmatch(line)) and self._pair(number, line, match[1], match[2].strip()):
            return
        elif self.last in _TEXTS and not line.startswith("Failed"):
            self._continued(number, line, line)
        else:
            self._note(number, "not a known line", line)

    def _pair(self, number: int, line: str, key: str, text: str) -> bool:
        """Take one line in; False if its key is not known."""
        known = folded(key)
        if known == "npuid":
            self._npu(number, line, text)
        elif known == "chipcount":
            self.named = True
        elif known == "chipid":
            self._chip(number, line, text)
        elif known == "chipname" and text.lower() in _NOT_A_CHIP:
            self._controller()
        elif known in FIELDS:
            self._value(number, line, known, text)
        elif (match := _PROBE.fullmatch(key)) is not None:
            # A board's own temperature probes have names of their own, which tell nothing of the chip.
            self._reading(number, line, f"{match[1].lower()}_celsius", text)
        else:
            return False
        return True

    def _npu(self, number: int, line: str, text: str) -> None:
        if set(self.values) != {"phy_id"}:  # which stands before the NPU it belongs to
            self._close()
        self.chip_first, self.chip = None, None
        self.npu = text if text.isdecimal() else None
        self.named = True
        if self.npu is None:
            self._note(number, "NPU ID is no number", line)

    def _chip(self, number: int, line: str, text: str) -> None:
        chip = text if text.isdecimal() else None
        self.named = True
        if chip is None:
            self._note(number, "Chip ID is no number", line)
        if self.chip_first is None:
            self.chip_first = not self.values and not self.unnamed
        if self.chip_first:
            self._close()
            self.chip, self.controller = chip, False
            return
        self.chip = chip
        self._close()

    def _controller(self) -> None:
        if self.chip_first is None:
            self.chip_first = not self.values
        if self.chip_first:
            self._close()
            self.chip, self.controller = None, True
            return
        self.chip, self.controller = None, True
        self._close()

    def _value(self, number: int, line: str, known: str, text: str) -> None:
        column = FIELDS[known]
        self.types.update(column.types)
        if column.name in self.values:
            # The next chip's lines, whose chip is not named.
            self._note(number, f"{column.name} is said again", line)
            return
        self.last = column.name
        try:
            self.values[column.name] = column.read(text)
        except Unreadable:
            self._note(number, f"{column.name} cannot be read", line)

    def _reading(self, number: int, line: str, name: str, text: str) -> None:
        try:
            self.values[name] = None if text == "Failed" else plain_number(text)
        except Unreadable:
            self._note(number, f"{name} cannot be read", line)
        self.last = name

    def _continued(self, number: int, line: str, text: str) -> None:
        before = self.values.get(self.last) if self.last in _TEXTS else None
        if self.last == "error_information":
            self.values[self.last] = f"{before}\n{text}" if before else text
        elif self.last == "fault_event_codes" and isinstance(before, tuple):
            try:
                more = FIELDS["faulteventinformation"].read(text)
            except Unreadable:
                more = None
            if isinstance(more, tuple):
                self.values[self.last] = tuple(str(code) for code in (*before, *more))
                return
            self._note(number, "not a fault event", line)
        else:
            self._note(number, "not a known line", line)

    def _process(self, number: int, line: str, match: re.Match[str]) -> None:
        self.types.update(("proc-mem",))
        pid, name, memory = match[1], match[2].strip(), match[3]
        if not pid.isdecimal():
            self._note(number, "a process without a number", line)
            return
        held: float | None = None
        try:
            megabytes = plain_number(memory)
            held = None if megabytes is None else megabytes * MEBIBYTE
        except Unreadable:
            self._note(number, f"process memory is {memory!r}", line)
        self.unnamed.append(len(self.processes))
        self.processes.append(ProcessMemory(self.npu, None, pid, name or None, held))

    def _close(self) -> None:
        """End the lines of one chip."""
        for at in self.unnamed:
            one = self.processes[at]
            self.processes[at] = ProcessMemory(one.npu, self.chip, one.pid, one.name, one.memory_bytes)
        self.unnamed.clear()
        if self.values:
            self.sections.append(Section(self.npu, self.chip, self.controller, dict(self.values)))
        self.values.clear()
        self.controller, self.last = False, None
        if not self.chip_first:
            self.chip = None

    def _note(self, number: int, what: str, line: str) -> None:
        self.notes.append(f"line {number}: {what}: {line[:100]}")

    def keyed(self) -> Keyed:
        if not self.values and not self.unnamed and not self.sections and self.named:
            self.sections.append(Section(self.npu, self.chip, self.controller, {}))
        self._close()
        return Keyed(self._type(), tuple(self.sections), tuple(self.processes), tuple(self.notes))

    def _type(self) -> str | None:
        """The type most of whose keys are here; of equal ones that which prints the fewest others."""
        if not self.types:
            return None
        sizes = Counter(kind for column in FIELDS.values() for kind in column.types)
        return min(self.types, key=lambda kind: (-self.types[kind], sizes[kind], kind))
