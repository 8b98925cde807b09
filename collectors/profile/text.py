"""The text form: msprof's mindstudio_profiler_output and torch_npu's ASCEND_PROFILER_OUTPUT.

One msprof folder may hold several devices (column `Device_id`); a torch_npu folder holds one rank.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from collectors.profile.communication import CommunicationError, add_links, add_operations, load
from collectors.profile.find import Capture
from collectors.profile.gathering import Gathering
from collectors.profile.hits import Hits
from collectors.profile.kernels import add_kernels
from collectors.profile.model import Bandwidth, RankProfile, Step
from collectors.profile.table import Columns, Row, Table, TableError

Progress = Callable[[int], None]
"""Told how many bytes were read since the last time."""

DEVICE = ("Device_id", "Device ID", "Device")

STEPS: Columns = {
    "step": ("Step",),
    "device": DEVICE,
    "computing": ("Computing",),
    "communication": ("Communication",),
    "exposed": ("Communication(Not Overlapped)",),
    "overlapped": ("Overlapped",),
    "free": ("Free",),
    "stage": ("Stage",),
    "bubble": ("Bubble",),
    "preparing": ("Preparing",),
}
STATISTIC: Columns = {
    "type": ("OP Type",),
    "core": ("Core Type",),
    "device": DEVICE,
    "count": ("Count",),
    "seconds": ("Total Time",),
    "longest": ("Max Time",),
}
API: Columns = {
    "level": ("Level",),
    "name": ("API Name", "Name"),
    "device": DEVICE,
    "seconds": ("Time",),
    "count": ("Count",),
    "longest": ("Max",),
}
HOST: Columns = {
    "name": ("Name",),
    "host": ("Host Self Duration",),
    "device_self": ("Device Self Duration",),
}
MEMORY: Columns = {
    "component": ("Component",),
    "time": ("Timestamp",),
    "allocated": ("Total Allocated",),
    "reserved": ("Total Reserved",),
    "device": DEVICE,
}
HBM: Columns = {"device": DEVICE, "unit": ("Metric",), "read": ("Read",), "write": ("Write",)}
TASKS: Columns = {
    "device": DEVICE,
    "type": ("kernel_type", "Task Type"),
    "seconds": ("task_time", "Task Duration", "Duration"),
}


def read_text(capture: Capture, progress: Progress) -> list[RankProfile]:
    """Read a capture's tables into one profile for each device; what cannot be read becomes a note."""
    return _TextReader(capture, progress).read()


class _TextReader:
    def __init__(self, capture: Capture, progress: Progress) -> None:
        self._capture = capture
        self._progress = progress
        self._devices: dict[str | None, Gathering] = {}
        self._notes: list[str] = []

    def read(self) -> list[RankProfile]:
        hits = Hits(self._named("l2_cache"), self._progress, self._notes)
        # Both would be the same tasks twice.
        for path in self._named("kernel_details") or self._named("op_summary"):
            self._guarded(path, lambda p: add_kernels(p, self._device, hits, self._progress, self._notes))
        if not any(g.has_operators for g in self._devices.values()):
            self._each("op_statistic", STATISTIC, ("type", "count", "seconds"), self._statistic)
        for name, columns, needed, add in (
            ("step_trace_time", STEPS, ("step", "computing"), self._step),
            ("api_statistic", API, ("name", "seconds", "count"), self._api),
            ("operator_details", HOST, ("name", "host"), self._host),
            ("memory_record", MEMORY, ("component", "time"), self._memory),
            ("npu_module_mem", MEMORY, ("component", "time", "reserved"), self._module),
            ("task_time", TASKS, ("type", "seconds"), self._copy),
        ):
            self._each(name, columns, needed, add)
        self._hbm()
        for path in self._named("communication"):
            self._guarded(path, self._communication)
        hits.settle(self._devices, lambda: self._device(None))
        return self._results()

    def _results(self) -> list[RankProfile]:
        if not self._devices:
            self._device(None)
        found = list(self._devices.values())
        found[0].notes += self._notes
        for gathering in found:
            gathering.rank = self._capture.rank if len(found) == 1 else None
            if gathering.device is None and len(found) == 1:
                gathering.device = self._capture.device
        return [gathering.result() for gathering in found]

    def _named(self, stem: str) -> list[Path]:
        """The capture's files of a table, slices in their order."""
        pattern = re.compile(rf"^{stem}(?![a-z])")
        return [path for path in self._capture.files if pattern.match(path.name)]

    def _device(self, device: str | None) -> Gathering:
        if device not in self._devices:
            self._devices[device] = Gathering(str(self._capture.source), "text", device)
        return self._devices[device]

    def _of(self, row: Row) -> Gathering:
        """Whom a row of a small table belongs to: its device if kernels of it were read, else the only one."""
        # The same device is `0` in one table and `NPU:0` in another one.
        device = (row.text("device") or "").removeprefix("NPU:")
        if device in self._devices:
            return self._devices[device]
        if len(self._devices) == 1:
            return next(iter(self._devices.values()))
        return self._device(None)

    def _each(self, stem: str, columns: Columns, needed: tuple[str, ...], add: Callable[[Row], bool]) -> None:
        for path in self._named(stem):
            self._guarded(path, lambda p: self._rows(Table(p, columns, needed, self._progress), add))

    def _rows(self, table: Table, add: Callable[[Row], bool]) -> None:
        odd = sum(not add(row) for row in table)
        if odd:
            self._notes.append(f"{table.path}: {odd} rows without a name or a number were left out")
        self._notes += table.notes

    def _guarded(self, path: Path, read: Callable[[Path], None]) -> None:
        try:
            read(path)
        except (TableError, CommunicationError) as error:
            self._notes.append(str(error))

    def _statistic(self, row: Row) -> bool:
        name, count, seconds = row.text("type"), row.number("count"), row.number("seconds")
        if name is None or count is None or seconds is None or count < 1:
            return False
        self._of(row).operators(name, row.text("core") or "", int(count), seconds, row.number("longest"))
        return True

    def _step(self, row: Row) -> bool:
        figures = [
            None if (value := row.number(name)) is None else value * 1e-6
            for name in STEPS
            if name not in ("step", "device")
        ]
        self._of(row).step(Step(row.text("step") or "", *figures))
        return True

    def _api(self, row: Row) -> bool:
        name, count, seconds = row.text("name"), row.number("count"), row.number("seconds")
        if name is None or count is None or seconds is None:
            return False
        self._of(row).api(row.text("level") or "", name, int(count), seconds, row.number("longest"))
        return True

    def _host(self, row: Row) -> bool:
        name, host = row.text("name"), row.number("host")
        if name is None or host is None:
            return False
        self._of(row).host_operator(name, host, row.number("device_self"))
        return True

    def _memory(self, row: Row, suffix: str = "") -> bool:
        name, time = row.text("component"), row.nanoseconds("time")
        if name is None or time is None:
            return False
        self._of(row).memory(name + suffix, time, row.number("allocated"), row.number("reserved"))
        return True

    def _module(self, row: Row) -> bool:
        return self._memory(row, " (module)")

    def _copy(self, row: Row) -> bool:
        kind, seconds = row.text("type"), row.number("seconds")
        if kind is None or seconds is None:
            return False
        if "MEMCPY" in kind.upper():
            self._of(row).copy("unknown", seconds, None)
        return True

    def _hbm(self) -> None:
        """Add up the memory units: the table has a mean read and write rate for each."""
        sums: dict[str | None, list[float]] = {}

        def add(row: Row) -> bool:
            unit, read, write = row.text("unit"), row.number("read"), row.number("write")
            if unit is None or not unit.isdecimal() or read is None or write is None:
                return unit is not None
            total = sums.setdefault(self._of(row).device, [0.0, 0.0])
            total[0] += read
            total[1] += write
            return True

        self._each("hbm", HBM, ("unit", "read", "write"), add)
        for device, (read, write) in sums.items():
            self._devices[device].bandwidth(Bandwidth(read, write, None))

    def _communication(self, path: Path) -> None:
        steps = load(path)
        self._progress(path.stat().st_size)
        gathering = next(iter(self._devices.values()), None) or self._device(None)
        matrix = path.stem == "communication_matrix"
        added, odd = add_links(steps, gathering) if matrix else add_operations(steps, gathering)
        if odd:
            self._notes.append(f"{path}: {odd} entries without all their figures were left out")
        elif not added:
            self._notes.append(f"{path}: holds no operations")
