"""What the collectors of /proc and /sys have in common: files below a root, on a thread of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from collectors.blocking import Blocking
from collectors.host.files import SystemFiles
from collectors.sample import Sample


class FilesCollector(ABC):
    """A collector that reads files; a subclass names it and says what it reads."""

    name: str

    def __init__(self, *, root: Path = Path("/"), interval_seconds: float) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._files = SystemFiles(root)
        self._blocking: Blocking[list[Sample]] = Blocking(
            f"{self.name}-collector", "does a process hang in the kernel (state D)?"
        )

    async def collect(self, now: float) -> list[Sample]:
        """Read once; raises CollectorError. `notes` tells what could not be read."""
        self.prepare()

        def work() -> list[Sample]:
            self._files.forget_notes()
            return self.read(now)

        samples = await self._blocking.run(work)
        self.notes = self._files.notes
        return samples

    def prepare(self) -> None:
        """Ask other parts of the program what the reading needs; called on the loop's thread, so it may."""
        return

    @abstractmethod
    def read(self, now: float) -> list[Sample]:
        """The reading itself, which may block; raises CollectorError."""
