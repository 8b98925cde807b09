"""The host below the engine: its cards by npu-smi, its processes and its port by the kernel, its disk."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from change.restart.ports import Card, Holder
from change.server import ProcessMark
from collectors.npu_smi.table import Chip, Process, Table
from collectors.sample import CollectorError
from daemon.engine_process import FORWARDERS
from daemon.process_mark import lives, mark_of

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - what others listen at, not we
_CUT_NAME = 15
"""Characters of a process's name that npu-smi and the kernel keep."""

ReadTable = Callable[[], Awaitable[Table]]


class HostGround:
    """`Ground` of the engine at `url`.

    `read_table` asks npu-smi afresh each time, None where it must not be run; `own` tells whether a card is the
    engine's (None: nobody says, and then it is if one of its processes is on it); `disk` is a folder on the disk that
    logs fill, `store` one on the store's.
    """

    def __init__(
        self,
        url: str,
        disk: Path,
        read_table: ReadTable | None,
        own: Callable[[str], bool | None],
        store: Path | None = None,
    ) -> None:
        self._url = url
        self._disks = [disk] if store is None else [disk, store]
        self._read_table = read_table
        self._own = own
        self._family: frozenset[int] = frozenset()
        self._known_cards: set[str] = set()

    async def cards(self) -> Sequence[Card]:
        """Read the cards' memory; empty where npu-smi is not run or does not answer."""
        table = await self._table()
        return [] if table is None else [card for chip in self._mine(table) if (card := _card(chip))]

    async def holders(self) -> Sequence[Holder]:
        """Say who holds memory, as far as the table names processes."""
        table = await self._table()
        if table is None:
            return []
        mine = {_name(chip.npu, chip.chip) for chip in self._mine(table)}
        return [
            Holder(
                process.name or "a process",
                _seen(process),
                int(process.memory_bytes or 0),
                _name(process.npu, process.chip),
            )
            for process in table.processes
            if _name(process.npu, process.chip) in mine
        ]

    async def port_holder(self) -> Holder | None:
        """Say who listens at the engine's port, another than the engine first; one that cannot be seen has no mark."""
        return await asyncio.to_thread(_listening, self._url, self._family)

    async def disk_free_bytes(self) -> int | None:
        """Return the free room of the fuller disk."""
        free = []
        for folder in self._disks:
            with contextlib.suppress(OSError):
                free.append(shutil.disk_usage(folder).free)
        return min(free, default=None)

    async def family(self, roots: Sequence[ProcessMark]) -> tuple[ProcessMark, ...]:
        """Return the processes with all their descendants."""
        found = await asyncio.to_thread(_family, roots)
        self._family = frozenset(mark.pid for mark in found) or self._family
        return found

    async def living(self, marks: Sequence[ProcessMark]) -> tuple[ProcessMark, ...]:
        """Return those that live; a dead one that nobody has reaped yet holds nothing any more."""
        return tuple(mark for mark in marks if _process(mark) is not None)

    async def reap(self, marks: Sequence[ProcessMark]) -> None:
        """Kill them."""
        for mark in marks:
            process = _process(mark)
            if process is not None:
                try:
                    process.kill()  # psutil looks at the start time once more before the signal
                except psutil.Error:
                    continue

    async def _table(self) -> Table | None:
        if self._read_table is None:
            return None
        try:
            return await self._read_table()
        except CollectorError:
            return None

    def _mine(self, table: Table) -> list[Chip]:
        """The engine's own chips; one that its processes were seen on stays its own when they have ended."""
        for process in table.processes:
            mark = _seen(process)
            if mark is not None and mark.pid in self._family:
                self._known_cards.add(_name(process.npu, process.chip))
        found = []
        for chip in table.chips:
            own = self._own(chip.npu)
            if own or (own is None and _name(chip.npu, chip.chip) in self._known_cards):
                found.append(chip)
        return found


def _card(chip: Chip) -> Card | None:
    usage = chip.hbm or chip.memory
    if usage is None or usage.used is None or not usage.total:
        return None
    return Card(_name(chip.npu, chip.chip), int(usage.total), int(usage.total - usage.used))


def _name(npu: str, chip: str) -> str:
    return f"NPU {npu} chip {chip}"


def _seen(process: Process) -> ProcessMark | None:
    """The process of a row, if its number is one of this namespace: then the names are the same too."""
    for number in (process.container_pid, process.pid):
        if number is None or not number.isdecimal():
            continue
        try:
            found = psutil.Process(int(number))
            name = found.name()
            if process.name is None or name[:_CUT_NAME] == process.name[:_CUT_NAME]:
                return mark_of(found)
        except psutil.Error:
            continue
    return None


def _listening(url: str, family: frozenset[int]) -> Holder | None:
    """Who holds the port. Several may share it, and the kernel tells them in no order: the engine's own comes last, and
    one at another address than the engine's is not in its way."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        sockets = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    here = [
        (one.laddr.ip, one.pid)
        for one in sockets
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
    ]
    own = {address for address, pid in here if pid in family}
    seen = [(address, pid) for address, pid in here if pid] if parts.hostname in LOOPBACK else []
    for address, pid in sorted(seen, key=lambda one: one[1] in family):
        if pid not in family and own and not any(_meet(address, mine) for mine in own):
            continue
        try:
            process = psutil.Process(pid)
            if process.name() not in FORWARDERS:
                return Holder(process.name(), mark_of(process))
        except psutil.Error:
            continue
    unseen = any(pid is None for _, pid in here)
    return Holder("a process that cannot be seen", None) if unseen else None


def _meet(one: str, other: str) -> bool:
    """Whether two listening addresses of one port are in each other's way."""
    return one == other or (bool({one, other} & EVERYWHERE) and (":" in one) == (":" in other))


def _process(mark: ProcessMark) -> psutil.Process | None:
    try:
        process = psutil.Process(mark.pid)
        # After psutil has noted who it is: it looks once more before it sends a signal.
        return process if lives(mark) else None
    except psutil.Error:
        return None


def _family(roots: Sequence[ProcessMark]) -> tuple[ProcessMark, ...]:
    found: dict[int, ProcessMark] = {}
    for root in roots:
        process = _process(root)
        if process is None:
            continue
        found[root.pid] = root
        try:
            children = process.children(recursive=True)
        except psutil.Error:
            continue
        for child in children:
            mark = mark_of(child)
            if mark is not None:
                found.setdefault(child.pid, mark)
    return tuple(found.values())
