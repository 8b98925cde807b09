"""A profiler's SQLite file, opened so that nothing is written beside it, whichever tables it has."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

OF_DEVICES = "deviceId"
"""The column by which tables name the device of a row."""


class Database:
    """One open database: its tables with their columns, and rows by query. Raises sqlite3.Error.

    `notes` say what was left out of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        # Immutable: without it SQLite makes -shm files, and fails in a folder that it may not write.
        self._connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True
        )
        self._connection.execute("PRAGMA temp_store = MEMORY")
        # A name that is not UTF-8 is damaged, but no reason to give up the rest.
        self._connection.text_factory = lambda raw: raw.decode(errors="replace")
        try:
            listed = self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
            names = [str(name) for (name,) in listed if '"' not in str(name)]
            self._tables = {
                name: {str(row[1]) for row in self.rows(f'PRAGMA table_info("{name}")')} for name in names
            }
        except sqlite3.Error:
            self.close()
            raise

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with these columns."""
        return table in self._tables and set(columns) <= self._tables[table]

    def devices(self, table: str) -> list[int]:
        """The devices that a table names, in their order."""
        if not self.has(table, OF_DEVICES):
            return []
        found = self.rows(f'SELECT DISTINCT {OF_DEVICES} FROM "{table}"')  # noqa: S608 - a name of ours
        return sorted({device for (value,) in found if (device := integer(value)) is not None})

    def narrow(self, device: int, others: Mapping[str, str]) -> None:
        """Show only the rows of one device; `others` are conditions for tables that do not name it themselves."""
        for table, columns in self._tables.items():
            condition = (
                f"CAST({OF_DEVICES} AS INTEGER) = {device}" if OF_DEVICES in columns else others.get(table)
            )
            if condition is not None:
                # A temporary view stands before a table of its name.
                self._connection.execute(
                    f'CREATE TEMP VIEW "{table}" AS SELECT * FROM main."{table}" WHERE {condition}'  # noqa: S608
                )

    def rows(self, query: str, values: Sequence[str] = ()) -> Iterator[tuple[object, ...]]:
        """The rows of a query, one at a time."""
        try:
            yield from self._connection.execute(query, values)
        except UnicodeDecodeError as error:
            # The words of SQLite's own error hold bytes of the damaged file.
            raise sqlite3.DatabaseError("the file is damaged") from error

    def numbers(self, *names: str) -> str:
        """The numbers of names in STRING_IDS, as the inside of an SQL list; `NULL` if there are none."""
        if not self.has("STRING_IDS", "id", "value"):
            return "NULL"
        marks = ",".join("?" * len(names))
        found = self.rows(f"SELECT id FROM STRING_IDS WHERE value IN ({marks})", names)  # noqa: S608
        return ",".join(str(whole(number)) for (number,) in found) or "NULL"

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def integer(value: object) -> int | None:
    """An integer column, None if it is empty or no number; some versions store integers as text."""
    try:
        return int(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None


def whole(value: object) -> int:
    """A number that is always there, as a count; 0 if it is not."""
    return integer(value) or 0


def real(value: object) -> float | None:
    """A numeric column; None if it is empty or no finite number."""
    try:
        number = float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None


def text(value: object, unknown: str) -> str:
    """A name; `unknown` if it is empty."""
    return unknown if value is None or value == "" else str(value)
