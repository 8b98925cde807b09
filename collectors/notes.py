"""Lists of notes for people: what could not be read, of which too many are as bad as none."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 100


def bounded(notes: Sequence[str], most: int = MOST) -> list[str]:
    """The first `most` notes, and how many more there are."""
    if len(notes) <= most:
        return list(notes)
    return [*notes[:most], f"and {len(notes) - most} more like these"]
