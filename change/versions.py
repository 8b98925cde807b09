"""Engine versions as tuples that compare: only the release numbers count."""

from __future__ import annotations

import re

Release = tuple[int, ...]


def release(version: str) -> Release:
    """Read the release numbers of a version (`v0.20.2rc1` is 0.20.2), or raise `ValueError`."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    if found is None:
        raise ValueError(f"engine version {version!r}: expected something like 0.28.0")
    numbers = tuple(int(number) for number in found[1].split("."))
    while numbers[-1] == 0 and len(numbers) > 1:
        numbers = numbers[:-1]
    return numbers


def within(version: Release, since: str | None, until: str | None) -> bool:
    """Whether a version is at or after `since` and before `until`; None is no limit."""
    return (since is None or version >= release(since)) and (until is None or version < release(until))
