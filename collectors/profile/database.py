"""The DB form: torch_npu's ascend_pytorch_profiler_*.db with analysis.db, and msprof's msprof_*.db."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing

from collectors.profile.analysis_parts import ANALYSIS_PARTS
from collectors.profile.database_parts import PARTS
from collectors.profile.find import Capture
from collectors.profile.gathering import Gathering
from collectors.profile.model import RankProfile
from collectors.profile.sqlite import Database


def read_database(capture: Capture, progress: Callable[[int], None]) -> list[RankProfile]:
    """Read a capture's databases into one profile for each device; what cannot be read becomes a note."""
    gatherings: dict[int | None, Gathering] = {}
    notes: list[str] = []
    # analysis.db last: what it sums up is taken only where the single tasks are not known.
    for path in sorted(capture.files, key=lambda p: (p.name == "analysis.db", p.name)):
        try:
            log = path.with_name(f"{path.name}-wal")
            if log.exists() and log.stat().st_size:
                notes.append(
                    f"{log}: what the profiler wrote there last was not read; end the profiler, "
                    "or open a copy of the database once with sqlite3"
                )
            with path.open("rb"):
                pass  # SQLite's own words for a file that may not be read say less
            with closing(Database(path)) as database:
                devices = database.devices("TASK")
            if len(devices) > 1:
                notes.append(
                    f"{path}: holds devices {', '.join(map(str, devices))}, which are a profile each; "
                    "what the host called is told with the first one"
                )
            for number, device in enumerate(devices if len(devices) > 1 else (None,)):
                with closing(Database(path)) as database:
                    if device is not None:
                        database.narrow(device, _of_device(database, device, first=number == 0))
                    gathering = gatherings.setdefault(device, _gathering(capture, device))
                    size = path.stat().st_size // max(len(devices), 1)
                    _read(database, gathering, size, progress)
        except OSError as error:
            notes.append(f"{path}: {error.strerror or error}")
        except sqlite3.Error as error:
            notes.append(f"{path}: cannot be read as a database: {error}")
    found = list(gatherings.values()) or [_gathering(capture, None)]
    found[0].notes[:0] = notes
    return [gathering.result() for gathering in found]


def _gathering(capture: Capture, device: int | None) -> Gathering:
    gathering = Gathering(str(capture.source), "db", capture.device if device is None else str(device))
    gathering.rank = capture.rank if device is None else None
    return gathering


def _of_device(database: Database, device: int, *, first: bool) -> Mapping[str, str]:
    """Which rows are a device's in tables that do not name it: those of its tasks; what the host did is told once."""
    tasks = (
        f"SELECT c.opId FROM main.COMMUNICATION_TASK_INFO c JOIN main.TASK t ON t.globalTaskId = c.globalTaskId "  # noqa: S608
        f"WHERE t.deviceId = {device}"
    )
    told = database.has("COMMUNICATION_TASK_INFO", "opId", "globalTaskId") and database.has(
        "TASK", "globalTaskId"
    )
    return {
        "COMMUNICATION_OP": f"opId IN ({tasks})"
        if told and database.has("COMMUNICATION_OP", "opId")
        else "0",
        "CANN_API": "1" if first else "0",
        "NPU_INFO": f"id = {device}" if database.has("NPU_INFO", "id") else "1",
    }


def _read(database: Database, gathering: Gathering, size: int, progress: Callable[[int], None]) -> None:
    known = False
    parts = (*PARTS, *ANALYSIS_PARTS)
    for number, part in enumerate(parts):
        # How far it is within a query is not known: each part counts alike.
        progress(size * (number + 1) // len(parts) - size * number // len(parts))
        if not all(database.has(table, *columns) for table, columns in part.needs.items()):
            continue
        known = True
        try:
            part.add(database, gathering)
        except sqlite3.Error as error:
            gathering.notes.append(f"{database.path}: {', '.join(part.needs)}: {error}")
    gathering.notes += database.notes
    if not known:
        gathering.notes.append(f"{database.path}: holds none of the tables of a profile")
