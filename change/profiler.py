"""The port to a profiler: what can record an engine's work for some seconds, and what came of it.

Profiling costs speed and makes some counters read 0 meanwhile, so it is an act: ordered, bounded, ended in any case.
Hands: `daemon.profile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Capture:
    """A finished recording.

    `folders` hold the results, largest first where there are several ranks; `seconds` is how long it recorded;
    `size_bytes` what the results take; `notes` what the reader of them should know.
    """

    way: str
    folders: tuple[Path, ...]
    seconds: float
    size_bytes: int
    notes: tuple[str, ...] = ()


class ProfilerError(Exception):
    """The recording failed or had to be given up; the text says what, where and what to do."""


class ProfilerAbsent(ProfilerError):
    """This way of recording does not exist here; another one may."""


class Profiler(Protocol):
    """One way to record."""

    @property
    def way(self) -> str:
        """Short name: `engine`, `msprof-dynamic` or `msprof-system`."""
        ...

    async def start(self, folder: Path, seconds: float) -> None:
        """Begin to record into `folder` (empty, its own), for about `seconds`.

        Raises `ProfilerAbsent` if this cannot work here, `ProfilerError` if it failed.
        """
        ...

    async def stop(self) -> None:
        """End the recording and wait until its results are written; nothing happens if none runs.

        Raises `ProfilerError`. Its time-out is the caller's: whoever is cancelled here leaves nothing running.
        """
        ...

    def place(self, folder: Path) -> Path:
        """Where the results of a recording into `folder` go: the engine writes elsewhere."""
        ...

    def sizes(self) -> Mapping[Path, int]:
        """Bytes that the recording has written so far, by folder of results."""
        ...

    def discard(self) -> tuple[Path, ...]:
        """Remove what the recording wrote into its own folder; returns new results that lie elsewhere and stay."""
        ...
