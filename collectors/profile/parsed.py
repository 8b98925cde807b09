"""What a folder of profiles was read as, JSON-ready, for `trimtab parse`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collectors.profile.read import plan, read
from collectors.profile.report import profile_as_dict


def parsed(path: Path) -> dict[str, Any]:
    """Everything read from a folder or file, in base units, null for unknown.

    `notes` say what could not be read; `error` says why nothing was, and is null otherwise.
    """
    reading = read(plan([path]))
    return {
        "profiles": [profile_as_dict(profile) for profile in reading.profiles],
        "notes": list(reading.notes),
        "error": None if reading.profiles else "; ".join(reading.notes[:3]) or f"{path}: nothing to read",
    }
