"""How long something takes, as people write it: `30s`, `5min`, `1h30m`."""

from __future__ import annotations

import re

_UNITS = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
LONGEST = 30


def seconds_of(value: object) -> float:
    """Read a duration; a bare number is seconds. Raises `ValueError` that says what is expected."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
        if 0 <= seconds < float("inf"):
            return seconds
    if isinstance(value, str) and len(value) <= LONGEST:
        parts = [(float(number), _UNITS.get(unit)) for number, unit in _PART.findall(value)]
        if value and not _PART.sub("", value) and all(unit for _, unit in parts):
            return sum(number * (unit or 0.0) for number, unit in parts)
    raise ValueError(f"{str(value)[:LONGEST]!r} is no duration: write 30s, 5min or 1h")
