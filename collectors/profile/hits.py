"""The table l2_cache: the hit ratio of each task, given to the tasks as they come by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from collectors.profile.gathering import Gathering
from collectors.profile.table import Columns, Table, TableError

HITS: Columns = {
    "device": ("Device_id", "Device ID"),
    "stream": ("Stream Id",),
    "task": ("Task Id",),
    "name": ("Op Name",),
    "hit": ("Hit Rate",),
}
MOST_HITS = 200_000
"""Hit ratios are held until their task comes by; each takes some hundred bytes."""

_Key = tuple[str | None, str | None, str | None, str | None]


class Hits:
    """Hit ratios by device, stream, task and operator.

    Numbers of tasks come round again, so that the ratios of one key belong to its tasks in their order; a task whose
    ratio is unknown takes its turn too. A table without a column of devices belongs to the only device there is.
    """

    def __init__(self, paths: list[Path], progress: Callable[[int], None], notes: list[str]) -> None:
        self._notes = notes
        self._waiting: dict[_Key, list[float | None]] = {}
        self._guessed: list[tuple[Gathering, float, int | None]] = []
        count = 0
        for path in paths:
            table = Table(path, HITS, ("task", "hit"), progress)
            try:
                for row in table:
                    if count >= MOST_HITS:
                        notes.append(f"{path}: only the first {MOST_HITS} hit ratios were read")
                        break
                    count += 1
                    key = (row.text("device"), row.text("stream"), row.text("task"), row.text("name"))
                    self._waiting.setdefault(key, []).append(row.number("hit"))
                notes += table.notes
            except TableError as error:
                notes.append(str(error))
        self._devices = {device for device, _, _, _ in self._waiting}

    def __bool__(self) -> bool:
        """Whether there are any, which most captures have not."""
        return bool(self._waiting)

    def give(
        self,
        gathering: Gathering,
        device: str | None,
        stream: str | None,
        task: str | None,
        name: str,
        rows: int | None,
    ) -> None:
        """Add the ratio of a task that works on `rows` tokens to its device, if there is one."""
        owner, guessed = device, False
        if device not in self._devices and len(self._devices) == 1:
            (table,) = self._devices
            if device is None or table is None:
                owner, guessed = table, True
        for known in (name, None):
            waiting = self._waiting.get((owner, stream, task, known))
            if waiting:
                ratio = waiting.pop(0)
                if ratio is not None and guessed:
                    self._guessed.append((gathering, ratio, rows))
                elif ratio is not None:
                    gathering.hit(ratio, rows)
                return

    def settle(self, devices: dict[str | None, Gathering], other: Callable[[], Gathering]) -> None:
        """Add what is left after the last task: of tasks that are not in the table of tasks, or of a guessed device."""
        left = [
            (device, ratio)
            for (device, _, _, _), waiting in self._waiting.items()
            for ratio in waiting
            if ratio is not None
        ]
        only = next(iter(devices.values())) if len(devices) == 1 else None
        lost = 0
        for gathering, ratio, rows in self._guessed:
            if only is None:
                lost += 1
            else:
                gathering.hit(ratio, rows)
        for device, ratio in left:
            owner = devices.get(device) if devices else other()
            if owner is None and only is not None and None in (device, only.device):
                owner = only
            if owner is None:
                lost += 1
            else:
                owner.hit(ratio, None)
        if lost:
            self._notes.append(
                f"l2_cache: {lost} hit ratios were left out: of {len(devices)} devices nothing tells whose they are"
            )
