"""Reads whatever captures lie in some folders into profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collectors.profile.database import read_database
from collectors.profile.find import Capture, find
from collectors.profile.model import RankProfile
from collectors.profile.text import read_text


@dataclass(frozen=True, slots=True)
class Reading:
    """The profiles that hold something, in order of their labels, and notes of what could not be read."""

    profiles: tuple[RankProfile, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be read, and how many bytes that is."""

    captures: tuple[Capture, ...]
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(_size(path) for capture in self.captures for path in capture.files)


def plan(paths: Iterable[Path]) -> Plan:
    """Look what there is to read in folders or files."""
    captures: dict[Path, Capture] = {}
    notes: list[str] = []
    for path in paths:
        found = find(path)
        notes += found.notes
        for capture in found.captures:
            captures.setdefault(capture.source.resolve(), capture)
    return Plan(tuple(captures.values()), tuple(notes))


def read(planned: Plan, progress: Callable[[int], None] = lambda count: None) -> Reading:
    """Read the captures; `progress` is told how many bytes were read since the last time."""
    profiles: list[RankProfile] = []
    notes = list(planned.notes)
    for capture in planned.captures:
        found = _read_one(capture, progress)
        profiles += [profile for profile in found if profile.usable]
        notes += [note for profile in found for note in profile.notes]
    profiles.sort(key=_order)
    return Reading(_distinct(profiles), tuple(dict.fromkeys((*notes, *_twice(profiles)))))


def _twice(profiles: Sequence[RankProfile]) -> list[str]:
    times = Counter(
        (f"device {profile.device}" if profile.rank is None else f"rank {profile.rank}", profile.form)
        for profile in profiles
        if profile.rank is not None or profile.device is not None
    )
    return [
        f"{card} is there {number} times as {form}: cards are compared by the first one; "
        "name the folders of one run"
        for (card, form), number in times.items()
        if number > 1
    ]


def _read_one(capture: Capture, progress: Callable[[int], None]) -> list[RankProfile]:
    found = (read_database if capture.form == "db" else read_text)(capture, progress)
    if capture.instead is None or any(profile.usable for profile in found):
        return found
    told = tuple(note for profile in found for note in profile.notes)
    instead = _read_one(capture.instead, progress)
    return [replace(profile, notes=told + profile.notes) for profile in instead]


def _order(profile: RankProfile) -> tuple[bool, int, str, str]:
    return (profile.rank is None, profile.rank or 0, profile.form, profile.source)


def _distinct(profiles: Sequence[RankProfile]) -> tuple[RankProfile, ...]:
    """Labels that occur twice get the name of their folder, or the whole path if that is the same too."""
    found = tuple(profiles)
    for name in (_folder, _source):
        times = Counter(profile.label for profile in found)
        found = tuple(
            replace(now, label=f"{before.label} in {name(now)}") if times[now.label] > 1 else now
            for now, before in zip(found, profiles, strict=True)
        )
    return found


def _folder(profile: RankProfile) -> str:
    path = Path(profile.source)
    return path.parent.name if path.name == "ASCEND_PROFILER_OUTPUT" else path.name


def _source(profile: RankProfile) -> str:
    return profile.source


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
