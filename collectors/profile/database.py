"""The DB form: torch_npu's ascend_pytorch_profiler_*.db with analysis.db, and msprof's msprof_*.db."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

from collectors.profile.analysis_parts import ANALYSIS_PARTS
from collectors.profile.database_parts import PARTS
from collectors.profile.find import Capture
from collectors.profile.gathering import Gathering
from collectors.profile.model import RankProfile
from collectors.profile.sqlite import Database


def read_database(capture: Capture, progress: Callable[[int], None]) -> list[RankProfile]:
    """Read a capture's databases into one profile; what cannot be read becomes a note."""
    gathering = Gathering(str(capture.source), "db", capture.device)
    gathering.rank = capture.rank
    # analysis.db last: what it sums up is taken only where the single tasks are not known.
    for path in sorted(capture.files, key=lambda p: (p.name == "analysis.db", p.name)):
        try:
            log = path.with_name(f"{path.name}-wal")
            if log.exists() and log.stat().st_size:
                gathering.notes.append(
                    f"{log}: what the profiler wrote there last was not read; end the profiler, "
                    "or open a copy of the database once with sqlite3"
                )
            with path.open("rb"):
                pass  # SQLite's own words for a file that may not be read say less
            with closing(Database(path)) as database:
                _read(database, gathering, path.stat().st_size, progress)
        except OSError as error:
            gathering.notes.append(f"{path}: {error.strerror or error}")
        except sqlite3.Error as error:
            gathering.notes.append(f"{path}: cannot be read as a database: {error}")
    return [gathering.result()]


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
    if not known:
        gathering.notes.append(f"{database.path}: holds none of the tables of a profile")
